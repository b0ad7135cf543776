//! Arithmetic and comparisons, with decimal constants folded or turned into exact scaling.

use super::ratio::{Constant, DecimalComparison, Ratio, compare_with_ratio};
use super::{Checker, Kind, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::program::{Binary, Comparison, Expr, Stmt, Type};
use crate::syntax::List;

impl Value {
    /// Its value, if known at compile time; `+infinity` is not, since no fraction of it is.
    fn known(&self) -> Option<Constant> {
        match (self.kind, &self.expr) {
            (Kind::Ratio(ratio), _) => Some(Constant::Fraction(ratio)),
            (Kind::Num, Expr::Const(n, Type::Num)) if *n != u64::MAX => Some(Constant::Whole(*n)),
            _ => None,
        }
    }

    fn ratio(&self) -> Option<Ratio> {
        match self.kind {
            Kind::Ratio(ratio) => Some(ratio),
            _ => None,
        }
    }
}

impl Checker<'_, '_> {
    pub(super) fn arithmetic(
        &mut self,
        list: &List<'_>,
        op: Binary,
        hoisted: &mut Vec<Stmt>,
    ) -> Value {
        let name = list.head().map_or("", |h| h.text);
        let most = match op {
            Binary::Add | Binary::Mul | Binary::Min | Binary::Max => usize::MAX,
            Binary::Sub | Binary::Div | Binary::WrappedMax => 2,
        };
        let Some(arguments) = self.arity(list, 2, most) else {
            return self.failed(list, Kind::Num);
        };
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.value(argument, hoisted);
            self.wants_number(&value, name);
            values.push(value);
        }
        self.left_fold(values, list.span, |checker, left, right| {
            checker.operate(op, left, right, list.span)
        })
    }

    fn operate(&mut self, op: Binary, left: Value, right: Value, span: Span) -> Value {
        let fraction = left.ratio().or(right.ratio()).is_some();
        if let (true, Some(a), Some(b)) = (fraction, left.known(), right.known())
            && let Some(folded) = Constant::fold(op, a, b)
        {
            return self.constant(folded, span);
        }
        let scaled = match (op, left.ratio(), right.ratio()) {
            (Binary::Mul, Some(Ratio { num, den }), None) => Some((&right, num, den)),
            (Binary::Mul, None, Some(Ratio { num, den })) => Some((&left, num, den)),
            (Binary::Div, None, Some(Ratio { num, den })) => Some((&left, den, num)),
            _ => None,
        };
        if let Some((value, num, den)) = scaled {
            let expr = Expr::Scale {
                value: Box::new(value.expr.clone()),
                num,
                den,
            };
            return self.tree(expr, Kind::Num, value.depth, span);
        }
        let (left, right) = (self.no_ratio(left), self.no_ratio(right));
        let depth = left.depth.max(right.depth);
        self.tree(
            Expr::Binary(op, Box::new(left.expr), Box::new(right.expr)),
            Kind::Num,
            depth,
            span,
        )
    }

    pub(super) fn comparison(
        &mut self,
        list: &List<'_>,
        op: Comparison,
        hoisted: &mut Vec<Stmt>,
    ) -> Value {
        let span = list.span;
        let Some([left, right]) = self.arity(list, 2, 2) else {
            return self.failed(list, Kind::Bool);
        };
        let (left, right) = (self.value(left, hoisted), self.value(right, hoisted));
        match (left.kind, right.kind) {
            (Kind::Bool, Kind::Num | Kind::Ratio(_)) | (Kind::Num | Kind::Ratio(_), Kind::Bool) => {
                self.mixed_comparison(&left, &right, span);
                Value {
                    kind: Kind::Bool,
                    ..Value::unknown(span)
                }
            }
            (Kind::Ratio(_), _) | (_, Kind::Ratio(_)) => {
                self.compare_decimal(op, left, right, span)
            }
            (Kind::Bool, Kind::Bool) if !matches!(op, Comparison::Eq | Comparison::Ne) => {
                let error = Diagnostic::error("type-mismatch", span, "booleans have no order")
                    .help("compare them with `==` or `!=`");
                self.errors.push(error);
                Value {
                    kind: Kind::Bool,
                    ..Value::unknown(span)
                }
            }
            _ => {
                let depth = left.depth.max(right.depth);
                self.tree(
                    Expr::Compare(op, Box::new(left.expr), Box::new(right.expr)),
                    Kind::Bool,
                    depth,
                    span,
                )
            }
        }
    }

    fn mixed_comparison(&mut self, left: &Value, right: &Value, span: Span) {
        let kind = |value: &Value| {
            if value.kind == Kind::Bool {
                "this is a boolean"
            } else {
                "this is a number"
            }
        };
        let boolean = if left.kind == Kind::Bool {
            left.span
        } else {
            right.span
        };
        let error = Diagnostic::error(
            "type-mismatch",
            span,
            "a boolean cannot be compared with a number",
        )
        .label(left.span, kind(left))
        .label(right.span, kind(right))
        .help(format!(
            "a boolean is a condition by itself: `{}`",
            self.excerpt(boolean)
        ));
        self.errors.push(error);
    }

    fn compare_decimal(&mut self, op: Comparison, left: Value, right: Value, span: Span) -> Value {
        let truth = |b: bool| Value::leaf(Expr::Const(b.into(), Type::Bool), Kind::Bool, span);
        if let (Some(a), Some(b)) = (left.known(), right.known()) {
            return truth(Constant::compare(op, a, b));
        }
        let (value, result) = match (left.ratio(), right.ratio()) {
            (None, Some(ratio)) => (left, compare_with_ratio(op, ratio)),
            (Some(ratio), _) => (right, compare_with_ratio(mirrored(op), ratio)),
            (None, None) => return truth(false),
        };
        match result {
            DecimalComparison::Always(b) => {
                let always = if b { "always true" } else { "never true" };
                let message = format!("this is {always}: a whole number does not equal a fraction");
                self.warnings
                    .push(Diagnostic::warning("decimal-equality", span, message));
                truth(b)
            }
            DecimalComparison::Whole(op, n) => {
                let number = Expr::Const(n, Type::Num);
                let expr = Expr::Compare(op, Box::new(value.expr), Box::new(number));
                self.tree(expr, Kind::Bool, value.depth, span)
            }
        }
    }
}

/// The comparison with its sides exchanged.
fn mirrored(op: Comparison) -> Comparison {
    match op {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        Comparison::Eq | Comparison::Ne => op,
    }
}
