//! Arguments of functions, records and events: by position, by name, or by default.

use super::Checker;
use super::expression::{Context, Typed};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Param;
use crate::model::expr::ExprKind;
use crate::source::Span;
use crate::syntax::tree;
use crate::value::Name;

impl Checker {
    /// Arguments by position, and behind those by name, of a function, a record or an event called `name`.
    pub(super) fn typed_arguments(
        &mut self,
        name: &Name,
        arguments: &[tree::Expr],
        params: &[Param],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Vec<Typed>> {
        let mut given: Vec<Option<&tree::Expr>> = vec![None; params.len()];
        let mut has_names = false;
        for (place, argument) in arguments.iter().enumerate() {
            let (index, value) = match &argument.kind {
                tree::ExprKind::Named(of, value) => {
                    has_names = true;
                    let Some(index) = params.iter().position(|param| !param.name.is_empty() && param.name == of.name)
                    else {
                        let message = format!("`{name}` takes no `{}`", of.name);
                        let diagnostic = Diagnostic::new(Code::UnknownName, of.span, message, "no such argument");
                        let names = params.iter().map(|param| &*param.name);
                        self.report.push(diagnostic.did_you_mean(&of.name, names));
                        return None;
                    };
                    (index, &**value)
                }
                _ if has_names => {
                    let help = "arguments without a name stand before those with one";
                    self.refuse(Code::ArgumentCount, argument.span, "which argument is this?", "no name", help);
                    return None;
                }
                _ => (place, argument),
            };
            match given.get_mut(index) {
                Some(Some(_)) => {
                    let message = format!("`{}` is given twice", params[index].name);
                    self.refuse(Code::ArgumentCount, argument.span, message, "again here", "leave one of them out");
                    return None;
                }
                Some(empty) => *empty = Some(value),
                None => {}
            }
        }
        let missing: Vec<&Param> = given
            .iter()
            .zip(params)
            .filter_map(|(value, param)| (value.is_none() && param.default.is_none()).then_some(param))
            .collect();
        if arguments.len() > params.len() || !missing.is_empty() {
            self.refuse_count(name, arguments.len(), params, &missing, span, has_names);
            return None;
        }
        let typed: Vec<_> = given
            .into_iter()
            .zip(params)
            .map(|(argument, param)| match (argument, &param.default) {
                (Some(argument), _) => self.expect(argument, context, &param.ty),
                (None, default) => {
                    let default = default.clone().map(ExprKind::Literal)?;
                    Some(Typed::leaf(default, param.ty.clone(), span))
                }
            })
            .collect();
        typed.into_iter().collect()
    }

    /// Reports a call with too many arguments or without those that are `missing`.
    fn refuse_count(
        &mut self,
        name: &Name,
        count: usize,
        params: &[Param],
        missing: &[&Param],
        span: Span,
        has_names: bool,
    ) {
        let (most, least) = (params.len(), params.iter().filter(|param| param.default.is_none()).count());
        let names: Vec<String> = missing.iter().map(|param| format!("`{}`", param.name)).collect();
        let message = if (least..=most).contains(&count) && least < most {
            format!("`{name}` is not given {}", names.join(", "))
        } else {
            let range = match most - least {
                0 => most.to_string(),
                1 => format!("{least} or {most}"),
                _ => format!("{least} to {most}"),
            };
            let plural = if most == 1 { "" } else { "s" };
            format!("`{name}` takes {range} argument{plural}, not {count}")
        };
        let diagnostic = Diagnostic::new(Code::ArgumentCount, span, message, "this call");
        self.report.push(match has_names && !missing.is_empty() {
            true => diagnostic.help(format!("what is missing: {}", names.join(", "))),
            false => diagnostic,
        });
    }
}
