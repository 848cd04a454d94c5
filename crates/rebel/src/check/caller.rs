//! Roles, and what an event may know of its caller.

use super::expression::{Context, Typed};
use super::{Checker, Scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::ExprKind;
use crate::source::Span;
use crate::syntax::tree::{File, Ident};
use crate::value::{Name, Type};

/// The role of the caller of timed events, which is declared nowhere.
pub(super) const SYSTEM: &str = "system";

/// What is said of a name that `caller` would hide.
const RESERVED: &str = "`caller` is who makes the step happen, and no name";

/// Whether `name` is a word of expressions that is none elsewhere.
pub(super) fn is_reserved(name: &str) -> bool {
    name == "caller"
}

impl Checker {
    /// Takes up the roles that the sources declare.
    pub(super) fn declared_roles(&mut self, files: &[File]) {
        for role in files.iter().flat_map(|file| &file.roles) {
            if *role.name == *SYSTEM {
                let message = "`system` is the role of timed events, and nobody is given it";
                let help = "remove it; `by system` and `caller has system` need no declaration";
                self.refuse(Code::Duplicate, role.span, message, "taken", help);
            } else if let Some(earlier) = self.roles.get(&role.name) {
                let message = format!("`{}` is a role twice", role.name);
                let diagnostic = Diagnostic::new(Code::Duplicate, role.span, message, "again here");
                self.report.push(diagnostic.and(*earlier, "declared here").help("remove one of them"));
            } else {
                self.roles.insert(role.name.clone(), role.span);
            }
        }
    }

    /// The roles of which an event demands one, each once.
    pub(super) fn demanded_roles(&mut self, roles: &[Ident]) -> Vec<Name> {
        let mut demanded: Vec<Name> = Vec::new();
        for role in roles {
            if demanded.contains(&role.name) {
                let message = format!("`{}` is demanded twice", role.name);
                self.refuse(Code::Duplicate, role.span, message, "again here", "remove it");
                continue;
            }
            self.use_role(role);
            demanded.push(role.name.clone());
        }
        demanded
    }

    fn use_role(&mut self, role: &Ident) {
        if self.roles.contains_key(&role.name) {
            self.used_roles.insert(role.name.clone());
        } else if *role.name != *SYSTEM && self.unknown.insert((Scope::Roles, role.name.clone())) {
            let message = format!("there is no role `{}`", role.name);
            let diagnostic = Diagnostic::new(Code::UnknownRole, role.span, message, "no such role");
            let known = self.roles.keys().map(|name| &**name).chain([SYSTEM]);
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            let diagnostic = diagnostic.help(format!("declare it: `roles {}`", role.name));
            self.report.push(diagnostic.did_you_mean(&role.name, known));
        }
    }

    pub(super) fn unused_roles(&mut self) {
        let mut unused: Vec<_> = self.roles.iter().filter(|(role, _)| !self.used_roles.contains(*role)).collect();
        unused.sort_by_key(|(_, span)| **span);
        for (role, span) in unused {
            let message = format!("`{role}` is a role that nothing asks for");
            self.report.push(Diagnostic::new(Code::Unused, *span, message, "unused").help("remove it"));
        }
    }

    /// Refuses to declare `caller`, which no expression could read. Says whether it is that.
    pub(super) fn refuse_reserved_name(&mut self, ident: &Ident) -> bool {
        let is_reserved = is_reserved(&ident.name);
        if is_reserved {
            self.refuse(Code::Duplicate, ident.span, RESERVED, "taken", "choose another name");
        }
        is_reserved
    }

    /// `caller has role`.
    pub(super) fn has_role(&mut self, role: &Ident, span: Span, context: &Context<'_>) -> Option<Typed> {
        self.use_role(role);
        self.caller_is_known(span, context)?;
        Some(Typed::leaf(ExprKind::HasRole(role.name.clone()), Type::Boolean, span))
    }

    /// `caller.id`, which is all there is of it.
    pub(super) fn caller_member(&mut self, member: &Ident, span: Span, context: &Context<'_>) -> Option<Typed> {
        self.caller_is_known(span, context)?;
        if &*member.name == "id" {
            return Some(Typed::leaf(ExprKind::CallerId, Type::String, span));
        }
        let message = format!("the caller has no property `{}`", member.name);
        let diagnostic = Diagnostic::new(Code::UnknownMember, member.span, message, "no such property");
        let diagnostic = diagnostic.help("`caller.id` is its id, and `caller has role` asks for a role");
        self.report.push(diagnostic.did_you_mean(&member.name, ["id"]));
        None
    }

    /// `caller` alone.
    pub(super) fn bare_caller(&mut self, span: Span, context: &Context<'_>) -> Option<Typed> {
        self.caller_is_known(span, context)?;
        let help = "`caller.id` is its id, and `caller has role` asks for a role";
        self.refuse(Code::OutOfPlace, span, "the caller is no value", "not a value", help);
        None
    }

    fn caller_is_known(&mut self, span: Span, context: &Context<'_>) -> Option<()> {
        if context.is_event() {
            return Some(());
        }
        let help = "only events are called; pass what is needed as a parameter, or keep it in a field";
        self.refuse(Code::OutOfPlace, span, "there is no caller here", "out of place", help);
        None
    }
}
