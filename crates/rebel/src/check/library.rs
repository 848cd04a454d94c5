//! Constants and functions, and the defaults of records, which they may need and which may need them.

use std::collections::HashMap;
use std::sync::Arc;

use super::expression::Context;
use super::{Checker, Declared, FunctionHeader, graph};
use crate::analysis::may_mismatch;
use crate::diagnostic::{Code, Diagnostic};
use crate::evaluate::{Evaluator, Scope};
use crate::model::Function;
use crate::model::expr::Expr;
use crate::source::Span;
use crate::syntax::tree::{self, File, Ident};
use crate::value::{Bindings, Name, RecordType, Rounding, Timestamp, Value};

#[derive(Clone, Copy)]
enum Item<'a> {
    Constant(&'a tree::Constant),
    Function(&'a tree::Function),
    /// The defaults of its fields.
    Record(&'a tree::Record),
}

impl<'a> Item<'a> {
    fn name(self) -> &'a Ident {
        match self {
            Item::Constant(constant) => &constant.name,
            Item::Function(function) => &function.name,
            Item::Record(record) => &record.name,
        }
    }

    /// Every name that it mentions.
    fn mentioned(self, visit: &mut dyn FnMut(&Name)) {
        match self {
            Item::Constant(constant) => mentioned(&constant.value, visit),
            Item::Function(function) => {
                mentioned(&function.body, visit);
                function.params.iter().filter_map(|param| param.default.as_ref()).for_each(|of| mentioned(of, visit));
            }
            Item::Record(record) => {
                record.fields.iter().filter_map(|field| field.default.as_ref()).for_each(|of| mentioned(of, visit));
            }
        }
    }
}

impl Checker {
    /// Checks constants, functions and the defaults of records, each after what it needs.
    pub(super) fn library(&mut self, files: &[File]) {
        let mut items = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let module = self.module_of_file(index);
            let constants = file.constants.iter().map(Item::Constant);
            let functions = file.functions.iter().map(Item::Function);
            let records = file.records.iter().map(Item::Record);
            items.extend(constants.chain(functions).chain(records).map(|item| (item, file.rounding, module)));
        }
        // So many plain constants do not exhaust what is there for those that compute.
        self.fuel = self.fuel.saturating_add(u32::try_from(items.len()).unwrap_or(u32::MAX));
        let index: HashMap<Span, usize> =
            items.iter().enumerate().map(|(index, (item, ..))| (item.name().span, index)).collect();
        let needs: Vec<Vec<usize>> = items
            .iter()
            .map(|(item, _, module)| {
                let mut needs = Vec::new();
                item.mentioned(&mut |name| {
                    let declared = self.declaration(*module, name);
                    needs.extend(declared.and_then(|declared| index.get(&declared).copied()));
                });
                needs
            })
            .collect();
        match graph::order(&needs) {
            Ok(order) => {
                for index in order {
                    let (item, rounding, module) = items[index];
                    let outer = self.enter(module);
                    self.item(item, rounding);
                    self.publish(item.name());
                    self.enter(outer);
                }
            }
            Err(circle) => {
                for (item, _, module) in &items {
                    let outer = self.enter(*module);
                    if let (Item::Record(record), Some(ty)) = (item, self.declared_record(&item.name().name)) {
                        Self::unknown_defaults_of_record(record, &ty);
                    }
                    self.enter(outer);
                }
                for &index in &circle {
                    let (item, _, module) = items[index];
                    let outer = self.enter(module);
                    self.used.insert(item.name().name.clone());
                    item.mentioned(&mut |name| _ = self.used.insert(name.clone()));
                    self.enter(outer);
                }
                self.recursion(&circle.iter().map(|&index| items[index].0).collect::<Vec<_>>());
            }
        }
    }

    fn recursion(&mut self, circle: &[Item<'_>]) {
        let names: Vec<&str> = circle.iter().chain(circle.first()).map(|item| &*item.name().name).collect();
        let message = format!("`{}` depends on itself: {}", names[0], names.join(" needs "));
        let mut diagnostic = Diagnostic::new(Code::Recursion, circle[0].name().span, message, "needs itself");
        for item in &circle[1..] {
            diagnostic = diagnostic.and(item.name().span, "through this");
        }
        self.report.push(diagnostic.help("every evaluation ends: there is no recursion"));
    }

    fn item(&mut self, item: Item<'_>, rounding: Rounding) {
        match item {
            Item::Constant(constant) => {
                let Some(ty) = self.ty(&constant.ty) else { return };
                let mut context = Context::constant(rounding);
                if let Some(expr) = self.expect(&constant.value, &mut context, &ty)
                    && let Some(value) = self.constant_value(&expr.expr, constant.value.span)
                {
                    self.constants.insert(constant.name.name.clone(), (ty, value));
                }
            }
            Item::Function(function) => {
                for param in &function.params {
                    if let tree::Type::Personal(_, _, span) = param.ty {
                        self.refuse_personal(span);
                    }
                }
                let mut params = self.params(&function.params);
                self.defaults_of_params(&mut params, &function.params, rounding);
                let Some(result) = self.ty(&function.result) else { return };
                if params.len() < function.params.len() {
                    return;
                }
                function.params.iter().for_each(|param| self.refuse_library_name(&param.name, "parameter"));
                let mut context = Context::function(&params, rounding);
                let Some(body) = self.expect(&function.body, &mut context, &result) else { return };
                self.unused_params(&function.params, &context.used);
                let header = FunctionHeader {
                    params,
                    result,
                    function: Arc::new(Function { may_mismatch: may_mismatch(&body.expr), body: body.expr }),
                    depth: body.depth,
                };
                self.functions.insert(function.name.name.clone(), header);
            }
            Item::Record(record) => {
                if let Some(ty) = self.declared_record(&record.name.name) {
                    self.defaults_of_record(record, &ty, rounding);
                }
            }
        }
    }

    fn declared_record(&self, name: &Name) -> Option<Arc<RecordType>> {
        match self.declared.get(name) {
            Some((Declared::Record(record), _)) => record.clone(),
            _ => None,
        }
    }

    pub(super) fn unused_params(&mut self, params: &[tree::Param], used: &[Name]) {
        for param in params {
            let is_broken = self.broken.contains(&param.name.name);
            if !used.contains(&param.name.name) && !param.name.name.starts_with('_') && !is_broken {
                let message = format!("`{}` is a parameter that nothing uses", param.name.name);
                let diagnostic = Diagnostic::new(Code::Unused, param.name.span, message, "unused");
                self.report.push(diagnostic.help("remove it, or begin its name with `_`"));
            }
        }
    }

    /// The value of a checked expression that reads nothing.
    pub(super) fn constant_value(&mut self, expr: &Expr, span: Span) -> Option<Value> {
        let class: Name = "".into();
        let at = Timestamp::from_millis(0);
        let scope = Scope { class: &class, key: None, fields: Bindings::nothing(), call: None, at };
        let mut evaluator = Evaluator::with_fuel(scope, self.fuel);
        let value = evaluator.value(expr, &[]);
        self.fuel = evaluator.fuel();
        match value {
            Ok(value) => Some(value),
            Err(fault) => {
                let message = format!("this has no value: {fault}");
                self.report.push(Diagnostic::new(Code::Literal, span, message, "no value"));
                None
            }
        }
    }
}

/// Every name that an expression mentions as a variable or a function.
pub(super) fn mentioned(expr: &tree::Expr, visit: &mut dyn FnMut(&Name)) {
    match &expr.kind {
        tree::ExprKind::Name(name) => visit(name),
        tree::ExprKind::Call(name, arguments) => {
            visit(&name.name);
            arguments.iter().for_each(|argument| mentioned(argument, visit));
        }
        tree::ExprKind::Member(a, _)
        | tree::ExprKind::Present(a)
        | tree::ExprKind::Named(_, a)
        | tree::ExprKind::Negate(a)
        | tree::ExprKind::Not(a)
        | tree::ExprKind::Initialized(a)
        | tree::ExprKind::Finalized(a)
        | tree::ExprKind::InState(a, _) => mentioned(a, visit),
        tree::ExprKind::Can(a, _, arguments) | tree::ExprKind::Method(a, _, arguments) => {
            mentioned(a, visit);
            arguments.iter().for_each(|argument| mentioned(argument, visit));
        }
        tree::ExprKind::Binary(_, a, b)
        | tree::ExprKind::Range { low: a, high: b, .. }
        | tree::ExprKind::Element(a, b) => {
            [a, b].into_iter().for_each(|operand| mentioned(operand, visit));
        }
        tree::ExprKind::Aggregate(aggregate) => aggregate.parts().for_each(|part| mentioned(part, visit)),
        tree::ExprKind::If(a, b, c) => [a, b, c].into_iter().for_each(|operand| mentioned(operand, visit)),
        tree::ExprKind::Set(items) | tree::ExprKind::List(items) => {
            items.iter().for_each(|item| mentioned(item, visit));
        }
        tree::ExprKind::Index(name, items) => {
            visit(&name.name);
            items.iter().for_each(|item| mentioned(item, visit));
        }
        tree::ExprKind::With(a, fields) => {
            mentioned(a, visit);
            fields.iter().for_each(|(_, value)| mentioned(value, visit));
        }
        tree::ExprKind::Map(entries) => {
            entries.iter().flat_map(|(key, value)| [key, value]).for_each(|part| mentioned(part, visit));
        }
        tree::ExprKind::Literal(_)
        | tree::ExprKind::None
        | tree::ExprKind::This
        | tree::ExprKind::Now
        | tree::ExprKind::Today
        | tree::ExprKind::Caller
        | tree::ExprKind::HasRole(_)
        | tree::ExprKind::Wrong => {}
    }
}
