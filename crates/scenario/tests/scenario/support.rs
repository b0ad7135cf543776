//! What scenarios of tests refer to.

use fairwater_scenario::Resolver;

/// A few files, and any algorithm but those called `wrong`.
pub(crate) struct Files;

impl Resolver for Files {
    fn read(&self, name: &str) -> Result<String, String> {
        let text = match name {
            "good.trace" => "0\n5\n10\n",
            "backwards.trace" => "5\n3\nx\n",
            "good.cdf" => "# bytes, probability\n1000 0.5\n100000 1\n",
            "usual.cdf" => "0 0\n1000 0.5\n100000 1\n",
            "falling.cdf" => "1000 0.5\n2000 0.4\n500 0.9 7\n100 2\n",
            "ends.cdf" => "1000 0.5\n2000 0.9\n",
            _ => return Err("there is no such file".to_owned()),
        };
        Ok(text.to_owned())
    }

    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>> {
        match text.strip_prefix("wrong") {
            Some(_) => Err(vec![format!("there is no algorithm `{text}`")]),
            None => Ok(()),
        }
    }
}
