"""What the guide shows is what there is."""

import re

from conftest import EXAMPLES, ROOT

GUIDE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_guides_algorithm_is_the_example():
    first = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert first is not None
    assert first[1] == (EXAMPLES / "aimd.py").read_text(encoding="utf-8")
