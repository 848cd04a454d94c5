//! Classes that extend others and events that classes share: they are copied into each class before anything of it is checked.
//!
//! # Origins
//! What a class consists of comes from its own text, from those of the classes that it extends, and from shared events. Each such
//! text is an *origin*, with the module that its names are looked up in, its rounding, and its constants, which the text that copies
//! it gives values. Copied trees keep their places, so that a finding points at what was written; [`Checker::at`] adds which class
//! copies it, and leaves out what was said of the same place before. A class that others extend, and a shared event, are checked by
//! themselves too: what is wrong with them is wrong with all copies.

use std::collections::HashMap;
use std::rc::Rc;

use super::{Checker, Declared, Scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::{DECLARATIONS_MAX, EXTENDED_MAX};
use crate::source::Span;
use crate::syntax::tree::{
    self, Argument, Class, ClassKind, Extends, File, Ident, Param, Shared, StateLabel, Statement, Use,
};
use crate::value::{Name, Rounding, Type, Value};

/// A text that parts of a class come from.
pub(super) struct Origin {
    pub(super) module: usize,
    pub(super) rounding: Rounding,
    /// The extent of the text; what stands in none of the others is of the first one, the class itself.
    span: Option<Span>,
    /// What is given a value where the text is copied.
    config: Vec<Param>,
    arguments: Vec<Argument>,
    /// The origin in whose text the arguments stand.
    outer: usize,
    /// The fields that it needs.
    needs: Vec<Param>,
    /// Where the text is copied, and by which class.
    copied: Option<(Span, Name)>,
    /// The name of what is copied.
    name: Name,
}

/// The constants of an origin: type, value, and where it is declared. One of an abstract class has no value.
pub(super) type Constants = HashMap<Name, (Type, Option<Value>, Span)>;

/// All classes with what they copy.
pub(super) struct Expansion {
    pub(super) classes: Vec<Class>,
    origins: Vec<Vec<Origin>>,
}

#[derive(Default)]
pub(super) struct Reuse {
    origins: Vec<Vec<Origin>>,
    constants: Vec<Vec<Rc<Constants>>>,
    /// The constants of the origin that is being read.
    current: Rc<Constants>,
    /// Whether a constant without a value was read.
    pub(super) is_open: bool,
    /// Constants that were read, by where they are declared.
    used: std::collections::HashSet<Span>,
}

/// A class or a shared event where it is declared.
struct Home<'a> {
    file: &'a File,
    module: usize,
}

impl Checker {
    /// All classes with what they extend and use, in the order of the sources, and behind them one for each shared event.
    pub(super) fn expand(&mut self, files: &[File]) -> Vec<Class> {
        let classes: Vec<(&Class, Home<'_>)> = files
            .iter()
            .enumerate()
            .flat_map(|(index, file)| {
                let module = self.module_of_file(index);
                file.classes.iter().map(move |class| (class, Home { file, module }))
            })
            .collect();
        let shared: Vec<(&Shared, Home<'_>)> = files
            .iter()
            .enumerate()
            .flat_map(|(index, file)| {
                let module = self.module_of_file(index);
                file.shared.iter().map(move |shared| (shared, Home { file, module }))
            })
            .collect();
        let mut copies = 0;
        let mut expansion = Expansion { classes: Vec::new(), origins: Vec::new() };
        for index in 0..classes.len() {
            self.expand_class(index, &classes, &shared, &mut expansion, &mut copies);
        }
        for (shared, home) in &shared {
            expansion.origins.push(vec![Origin::of(home, &shared.name.name, None)]);
            expansion.classes.push(stand_in(shared));
        }
        self.reuse.origins = expansion.origins;
        expansion.classes
    }

    fn expand_class(
        &mut self,
        index: usize,
        classes: &[(&Class, Home<'_>)],
        shared: &[(&Shared, Home<'_>)],
        expansion: &mut Expansion,
        copies: &mut usize,
    ) {
        let (class, home) = &classes[index];
        let mut origins = vec![Origin { config: class.config.clone(), ..Origin::of(home, &class.name.name, None) }];
        let Some(chain) = self.chain(index, classes) else {
            self.reuse_is_unknown.push(index);
            expansion.classes.push(Class { extends: None, ..(*class).clone() });
            expansion.origins.push(origins);
            return;
        };
        if chain.is_empty() && class.states.iter().all(|group| group.uses.is_empty()) {
            expansion.classes.push((*class).clone());
            expansion.origins.push(origins);
            return;
        }
        let mut above: &Extends = match &class.extends {
            Some(extends) => extends,
            None => &Extends { class: class.name.clone(), arguments: Vec::new(), span: class.name.span },
        };
        let copied_at = above.span;
        for (outer, &ancestor) in chain.iter().enumerate() {
            let (ancestor, home) = &classes[ancestor];
            let extent = Some(extent(ancestor, home.file));
            origins.push(Origin {
                span: extent,
                config: ancestor.config.clone(),
                arguments: above.arguments.clone(),
                outer,
                copied: Some((copied_at, class.name.name.clone())),
                ..Origin::of(home, &ancestor.name.name, None)
            });
            above = ancestor.extends.as_ref().unwrap_or(above);
        }
        let mut expanded = Class {
            fields: Vec::new(),
            invariants: Vec::new(),
            indexes: Vec::new(),
            states: Vec::new(),
            ..(*class).clone()
        };
        let parts: Vec<usize> = std::iter::once(index).chain(chain).collect();
        for (origin, of) in parts.into_iter().enumerate().rev() {
            let (part, home) = &classes[of];
            *copies += size(part);
            if origin > 0 && *copies > DECLARATIONS_MAX {
                let message =
                    format!("copied classes count, and a specification has at most {DECLARATIONS_MAX} declarations");
                self.report.push(Diagnostic::new(Code::Limit, copied_at, message, "one too many"));
                self.reuse_is_unknown.push(index);
                break;
            }
            expanded.fields.extend(part.fields.iter().cloned());
            expanded.invariants.extend(part.invariants.iter().cloned());
            expanded.indexes.extend(part.indexes.iter().cloned());
            for group in &part.states {
                let mut group = group.clone();
                group.events.iter_mut().for_each(|event| event.origin = origin);
                for used in std::mem::take(&mut group.uses) {
                    let outer = self.enter(home.module);
                    let found = self.used_event(&used, shared);
                    self.enter(outer);
                    let Some(found) = found else { continue };
                    let (from, from_home) = &shared[found];
                    let copied = match origin {
                        0 => (used.span, class.name.name.clone()),
                        _ => (copied_at, class.name.name.clone()),
                    };
                    let mut event_origin = Origin::of(from_home, &from.name.name, Some(copied));
                    (event_origin.outer, event_origin.needs) = (origin, from.needs.clone());
                    let count = self.report.len();
                    let event = self.event_of(&used, from, &mut event_origin, (index, origins.len()));
                    // What extends this class uses it again.
                    self.report.amend(count, |diagnostic| diagnostic);
                    origins.push(event_origin);
                    *copies += 1;
                    group.events.push(event);
                }
                group.events.sort_by_key(|event| event.name.span);
                self.replace(&mut expanded, &mut group, origin, &origins);
                expanded.states.push(group);
            }
        }
        for tree::StateGroup { states, events, .. } in &mut expanded.states {
            events.retain(|event| !states.iter().all(|state| event.replaced.contains(&state.name)));
        }
        expansion.classes.push(expanded);
        expansion.origins.push(origins);
    }

    /// All classes, each behind those that it copies.
    pub(super) fn in_order_of_copies(&self, classes: &[Class]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..classes.len()).collect();
        let ancestors = |class: usize| self.reuse.origins[class].iter().filter(|origin| origin.span.is_some()).count();
        order.sort_by_cached_key(|&class| (classes[class].kind != ClassKind::Shared, ancestors(class)));
        order
    }

    /// The classes that a class extends, the nearest first; `None` if what they are is wrong, which is reported.
    fn chain(&mut self, index: usize, classes: &[(&Class, Home<'_>)]) -> Option<Vec<usize>> {
        let mut chain = Vec::new();
        let mut at = index;
        while let Some(extends) = &classes[at].0.extends {
            let outer = self.enter(classes[at].1.module);
            let found = self.extended(extends, classes, at == index);
            self.enter(outer);
            let next = found?;
            if next == index || chain.contains(&next) {
                if next == index {
                    self.refuse_circle_of_classes(index, &chain, classes);
                }
                return None;
            }
            if chain.len() == EXTENDED_MAX {
                let message =
                    format!("a class extends at most {EXTENDED_MAX} classes, those included that these extend");
                let span = classes[index].0.extends.as_ref().map_or(extends.span, |first| first.span);
                self.report.push(Diagnostic::new(Code::Limit, span, message, "one too many"));
                return None;
            }
            chain.push(next);
            at = next;
        }
        Some(chain)
    }

    fn extended(&mut self, extends: &Extends, classes: &[(&Class, Home<'_>)], is_own: bool) -> Option<usize> {
        let name = &extends.class;
        let found = self.declared.get(&name.name).map(|(declared, _)| declared.clone());
        if let Some(Declared::Class(found)) = found {
            self.used.insert(name.name.clone());
            let (class, _) = &classes[found];
            if class.kind == ClassKind::External && is_own {
                let message = format!("`{}` is external, and nothing is known of it that could be copied", name.name);
                let diagnostic = Diagnostic::new(Code::Extends, name.span, message, "external");
                self.report.push(diagnostic.and(class.name.span, "declared here"));
            }
            return (class.kind != ClassKind::External).then_some(found);
        }
        if !is_own || !self.unknown.insert((Scope::Classes, name.name.clone())) {
            return None;
        }
        if let Some(declared) = found {
            let message = format!("`{}` is {}, and a class extends a class", name.name, declared.noun());
            self.report.push(Diagnostic::new(Code::Extends, name.span, message, "no class"));
        } else if !self
            .explain(Code::UnknownType, &name.name, name.span, |declared| matches!(declared, Declared::Class(_)))
        {
            let message = format!("there is no class `{}`", name.name);
            let diagnostic = Diagnostic::new(Code::UnknownType, name.span, message, "no such class");
            let names = self.declared.iter().filter(|(_, (declared, _))| matches!(declared, Declared::Class(_)));
            let mut names: Vec<&str> = names.map(|(name, _)| &**name).collect();
            names.sort_unstable();
            let diagnostic = diagnostic.did_you_mean(&name.name, names);
            self.report.push(diagnostic);
        }
        None
    }

    /// Reported once, where the first class of the circle in the text is.
    fn refuse_circle_of_classes(&mut self, index: usize, chain: &[usize], classes: &[(&Class, Home<'_>)]) {
        if chain.iter().any(|other| *other < index) {
            return;
        }
        let circle: Vec<usize> = std::iter::once(index).chain(chain.iter().copied()).collect();
        let names: Vec<String> =
            circle.iter().chain([&index]).map(|&of| format!("`{}`", classes[of].0.name.name)).collect();
        let message = format!("a class does not extend itself: {}", names.join(" extends "));
        let spans: Vec<Span> =
            circle.iter().filter_map(|&of| classes[of].0.extends.as_ref()).map(|extends| extends.span).collect();
        let mut diagnostic = Diagnostic::new(Code::Extends, spans[0], message, "extends the next");
        for span in &spans[1..] {
            diagnostic = diagnostic.and(*span, "extends the next");
        }
        self.report.push(diagnostic.help("move what they have in common into a class that extends neither"));
    }

    fn used_event(&mut self, used: &Use, shared: &[(&Shared, Home<'_>)]) -> Option<usize> {
        let name = &used.event;
        if let Some((Declared::Event(index), _)) = self.declared.get(&name.name) {
            let index = *index;
            self.used.insert(name.name.clone());
            return (index < shared.len()).then_some(index);
        }
        if !self.unknown.insert((Scope::Classes, name.name.clone())) {
            return None;
        }
        let is_event = |declared: &Declared| matches!(declared, Declared::Event(_));
        let found = self.declared.get(&name.name).map(|(declared, _)| declared.noun());
        if let Some(noun) = found {
            let message = format!("`{}` is {noun}, not an event that classes share", name.name);
            let help = "an event is shared that is declared on the file level: `event Name(..)`";
            self.refuse(Code::UnknownEvent, name.span, message, "no shared event", help);
        } else if !self.explain(Code::UnknownEvent, &name.name, name.span, is_event) {
            let message = format!("there is no shared event `{}`", name.name);
            let diagnostic = Diagnostic::new(Code::UnknownEvent, name.span, message, "no such event");
            let names = self.declared.iter().filter(|(_, (declared, _))| is_event(declared));
            let mut names: Vec<&str> = names.map(|(name, _)| &**name).collect();
            names.sort_unstable();
            let hinted = diagnostic.clone().did_you_mean(&name.name, names);
            let help = "an event is shared that is declared on the file level: `event Name(..)`";
            self.report.push(if hinted.help.is_some() { hinted } else { diagnostic.help(help) });
        }
        None
    }

    /// The event that a class gets by a `use`. Parameters that the `use` gives become constants of `origin`.
    fn event_of(&mut self, used: &Use, shared: &Shared, origin: &mut Origin, number: (usize, usize)) -> tree::Event {
        let mut given: Vec<&Name> = Vec::new();
        for argument in &used.arguments {
            let Some(name) = &argument.name else {
                let message = format!("`use {}` gives parameters by their names", used.event.name);
                let help = "write `name: value`";
                self.refuse(Code::Config, argument.value.span, message, "no name", help);
                continue;
            };
            if given.contains(&&name.name) {
                let message = format!("`{}` is given twice", name.name);
                self.report.push(Diagnostic::new(Code::Config, name.span, message, "again here"));
                continue;
            }
            let Some(param) = shared.params.iter().find(|param| param.name.name == name.name) else {
                self.reuse_is_unmet.insert(number);
                if !self.unknown.insert((Scope::Config(shared.name.span), name.name.clone())) {
                    continue;
                }
                let message = format!("`{}` has no parameter `{}`", shared.name.name, name.name);
                let diagnostic = Diagnostic::new(Code::Config, name.span, message, "no such parameter");
                let names = shared.params.iter().map(|param| &*param.name.name);
                let diagnostic = diagnostic.did_you_mean(&name.name, names);
                self.report.push(diagnostic);
                continue;
            };
            given.push(&name.name);
            origin.config.push(Param { default: None, ..param.clone() });
            origin.arguments.push(argument.clone());
        }
        if let (Some(target), false) = (&used.target, shared.variants.is_empty()) {
            let message = format!("`{}` has variants, each with a target of its own", shared.name.name);
            let diagnostic = Diagnostic::new(Code::Syntax, target.span, message, "one too many");
            self.report.push(diagnostic.and(shared.name.span, "declared here").help("remove it"));
        }
        let left = shared.params.iter().filter(|param| !given.contains(&&param.name.name));
        tree::Event {
            documentation: shared.documentation.clone(),
            internal: false,
            read: false,
            name: used
                .name
                .clone()
                .unwrap_or_else(|| Ident { name: super::modules::own_name(&used.event.name), ..used.event }),
            params: left.cloned().collect(),
            result: shared.result.clone(),
            roles: shared.roles.clone(),
            target: used.target.clone(),
            sections: shared.sections.clone(),
            variants: shared.variants.clone(),
            origin: number.1,
            replaced: Vec::new(),
        }
    }

    /// Takes events away that those of `group` replace, which comes from `origin`. What replaces another one says so by `use`.
    fn replace(&mut self, expanded: &mut Class, group: &mut tree::StateGroup, origin: usize, origins: &[Origin]) {
        let tree::StateGroup { states, events, .. } = group;
        for earlier in &mut expanded.states {
            for state in states.iter() {
                if !earlier.states.iter().any(|other| other.name == state.name) {
                    continue;
                }
                for event in events.iter_mut() {
                    let is_inherited = |other: &tree::Event| home(other.origin, origins) != origin;
                    let is_same = |other: &&mut tree::Event| other.name.name == event.name.name && is_inherited(other);
                    let Some(other) = earlier.events.iter_mut().find(is_same) else { continue };
                    if event.origin != origin {
                        other.replaced.push(state.name.clone());
                        continue;
                    }
                    event.replaced.push(state.name.clone());
                    if origin == 0 {
                        let of = &origins[home(other.origin, origins)].name;
                        let message = format!("`{of}` already has `{}` in the state `{}`", event.name.name, state.name);
                        let diagnostic = Diagnostic::new(Code::Replaces, event.name.span, message, "replaces it");
                        let help = "declare an event on the file level and write `use` here, which replaces; or choose another name";
                        self.report.push(diagnostic.and(other.name.span, "this one").help(help));
                    }
                }
            }
        }
    }

    /// Does something with the text of an origin of a class: names mean there what they mean in that text.
    pub(super) fn at<T>(&mut self, class: usize, origin: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let Some(from) = self.reuse.origins.get(class).and_then(|origins| origins.get(origin)) else {
            return read(self);
        };
        let (module, copied) = (from.module, from.copied.clone());
        let constants = self.reuse.constants.get(class).and_then(|of| of.get(origin)).cloned().unwrap_or_default();
        let before = std::mem::replace(&mut self.reuse.current, constants);
        let (outer, count) = (self.enter(module), self.report.len());
        let result = read(self);
        self.enter(outer);
        self.reuse.current = before;
        if let Some((span, class)) = copied {
            self.report.amend(count, |diagnostic| match diagnostic.labels[0].span == span {
                true => diagnostic,
                false => diagnostic.and(span, format!("copied by `{class}`")),
            });
        }
        result
    }

    pub(super) fn rounding_of(&self, class: usize, origin: usize) -> Rounding {
        let origin = self.reuse.origins.get(class).and_then(|origins| origins.get(origin));
        origin.map_or_else(Rounding::default, |origin| origin.rounding)
    }

    /// The origin of what stands at `span`, which is no part of a shared event.
    pub(super) fn origin_of(&self, class: usize, span: Span) -> usize {
        let Some(origins) = self.reuse.origins.get(class) else { return 0 };
        let holds = |origin: &Origin| {
            origin.span.is_some_and(|of| of.source == span.source && of.start <= span.start && span.end <= of.end)
        };
        origins.iter().position(holds).unwrap_or(0)
    }

    pub(super) fn origin_module(&self, class: usize) -> Option<Name> {
        self.module_name(self.reuse.origins.get(class)?.first()?.module)
    }

    /// A constant of the text that is being read.
    pub(super) fn config_value(&mut self, name: &Name) -> Option<(Type, Option<Value>)> {
        let (ty, value, span) = self.reuse.current.get(name)?.clone();
        self.reuse.used.insert(span);
        self.reuse.is_open |= value.is_none();
        Some((ty, value))
    }

    /// Where a constant of the text that is being read is declared.
    pub(super) fn config_place(&self, name: &Name) -> Option<Span> {
        self.reuse.current.get(name).map(|(.., span)| *span)
    }

    pub(super) fn config_names(&self) -> Vec<Name> {
        self.reuse.current.keys().cloned().collect()
    }

    /// Gives the constants of all classes their values.
    pub(super) fn constants_of_classes(&mut self, classes: &[Class]) {
        self.reuse.constants = vec![Vec::new(); classes.len()];
        for class in self.in_order_of_copies(classes) {
            let tree = &classes[class];
            for origin in 0..self.reuse.origins[class].len() {
                let constants = Rc::new(self.constants_of(class, origin, tree));
                self.reuse.constants[class].push(constants);
            }
        }
    }

    fn constants_of(&mut self, class: usize, origin: usize, tree: &Class) -> Constants {
        let Origin { config, arguments, outer, .. } = &self.reuse.origins[class][origin];
        let (config, arguments, outer) = (config.clone(), arguments.clone(), *outer);
        if config.is_empty() && arguments.is_empty() {
            return Constants::new();
        }
        let is_abstract = origin == 0 && tree.kind == ClassKind::Abstract;
        let name = self.reuse.origins[class][origin].name.clone();
        let mut constants = Constants::new();
        let mut given: Vec<Option<&Argument>> = vec![None; config.len()];
        let mut is_misspelt = false;
        for (index, argument) in arguments.iter().enumerate() {
            let place = match &argument.name {
                Some(name) => config.iter().position(|config| config.name.name == name.name),
                None => (index < config.len()).then_some(index),
            };
            let span = argument.name.as_ref().map_or(argument.value.span, |name| name.span);
            is_misspelt |= place.is_none() && argument.name.is_some();
            let wrong = match place {
                None => Some(match &argument.name {
                    Some(wrong) => format!("`{name}` has no constant `{}`", wrong.name),
                    None => {
                        let plural = if config.len() == 1 { "" } else { "s" };
                        format!("`{name}` has {} constant{plural}, and this is one more", config.len())
                    }
                }),
                Some(place) if given[place].is_some() => Some(format!("`{}` is given twice", config[place].name.name)),
                Some(place) => {
                    given[place] = Some(argument);
                    None
                }
            };
            if let Some(message) = wrong {
                self.at(class, outer, |checker| {
                    let diagnostic = Diagnostic::new(Code::Config, span, message, "not expected");
                    let names = config.iter().map(|config| &*config.name.name);
                    let diagnostic = match &argument.name {
                        Some(wrong) => diagnostic.did_you_mean(&wrong.name, names),
                        None => diagnostic,
                    };
                    checker.report.push(diagnostic);
                });
            }
        }
        for (config, argument) in config.iter().zip(given) {
            if constants.contains_key(&config.name.name) {
                let message = format!("`{}` is a constant of this class twice", config.name.name);
                self.report.push(Diagnostic::new(Code::Duplicate, config.name.span, message, "again here"));
                continue;
            }
            let ty = self.at(class, origin, |checker| {
                let is_of_event = origin > 0 && checker.reuse.origins[class][origin].span.is_none();
                if origin == 0 || is_of_event {
                    checker.refuse_field_name(class, &config.name, "constant");
                }
                checker.refuse_library_name(&config.name, "constant");
                checker.ty(&config.ty)
            });
            let Some(ty) = ty else {
                self.broken.insert(config.name.name.clone());
                continue;
            };
            let value = match (argument, &config.default) {
                (Some(argument), _) => self.given_value(class, outer, &argument.value, &ty),
                (None, Some(default)) => self.given_value(class, origin, default, &ty).map(|value| match is_abstract {
                    true => None,
                    false => value,
                }),
                (None, None) if is_abstract => Some(None),
                (None, None) if is_misspelt => None,
                (None, None) => {
                    self.not_given(class, origin, &name, &config.name);
                    None
                }
            };
            match value {
                Some(value) => _ = constants.insert(config.name.name.clone(), (ty, value, config.name.span)),
                None => _ = self.broken.insert(config.name.name.clone()),
            }
        }
        constants
    }

    fn not_given(&mut self, class: usize, origin: usize, name: &Name, missing: &Ident) {
        if origin == 0 {
            let message = format!("`{name}` has instances, and nothing gives `{}` a value", missing.name);
            let help = "give it a default, or make the class `abstract` and extend it";
            return self.refuse(Code::Config, missing.span, message, "without a value", help);
        }
        let copied = self.reuse.origins[class][origin].copied.clone();
        let (span, _) = copied.unwrap_or((missing.span, name.clone()));
        let message = format!("`{name}` needs a value for its constant `{}`", missing.name);
        let diagnostic = Diagnostic::new(Code::Config, span, message, "not given here");
        let help = format!("write `{name}({}: ..)`", missing.name);
        self.report.push(diagnostic.and(missing.span, "declared without a default").help(help));
    }

    /// The value of an argument in the text of `origin`, as of a default.
    fn given_value(&mut self, class: usize, origin: usize, tree: &tree::Expr, ty: &Type) -> Option<Option<Value>> {
        let rounding = self.rounding_of(class, origin);
        self.at(class, origin, |checker| checker.default_value(tree, ty, rounding))
    }

    /// Warns of constants of classes that nothing reads.
    pub(super) fn unused_constants(&mut self, classes: &[Class]) {
        let config = classes.iter().filter(|class| class.kind != ClassKind::Shared).flat_map(|class| &class.config);
        let unused: Vec<&Ident> =
            config.map(|config| &config.name).filter(|name| !self.reuse.used.contains(&name.span)).collect();
        for name in unused {
            if !self.broken.contains(&name.name) && !name.name.starts_with('_') {
                let message = format!("`{}` is a constant that nothing uses", name.name);
                let diagnostic = Diagnostic::new(Code::Unused, name.span, message, "unused");
                self.report.push(diagnostic.help("remove it, or begin its name with `_`"));
            }
        }
    }

    /// Refuses the use of shared events by classes without the fields that these need.
    pub(super) fn needs_of_events(&mut self, class: usize) {
        for origin in 0..self.reuse.origins[class].len() {
            for need in self.reuse.origins[class][origin].needs.clone() {
                let module = self.reuse.origins[class][origin].module;
                let outer = self.enter(module);
                let ty = self.owned_type(&need.ty).map(|(ty, _)| ty);
                self.enter(outer);
                let header = &self.headers[class];
                let field = header.field(&need.name.name).map(|field| field.ty.clone());
                let found = field.or_else(|| header.identity_field(&need.name.name).map(|(_, ty)| ty));
                let Some(ty) = ty.filter(|ty| found.as_ref() != Some(ty)) else { continue };
                self.reuse_is_unmet.insert((class, origin));
                // Each class that is extended is checked by itself.
                let root = self.reuse.origins[class].iter().rev().find(|origin| origin.span.is_some());
                let root = root.map_or(self.reuse.origins[class][0].name.clone(), |root| root.name.clone());
                let is_said = self.headers[class].is_open || found.is_none() && self.broken.contains(&need.name.name);
                if is_said || !self.unknown.insert((Scope::Needs(need.name.span), root)) {
                    continue;
                }
                let of = &self.reuse.origins[class][origin];
                let Some((span, class_name)) = of.copied.clone() else { continue };
                let message = match &found {
                    Some(found) => {
                        format!("`{}` needs a field `{}` of type {ty}, and here it is {found}", of.name, need.name.name)
                    }
                    None => {
                        format!(
                            "`{}` needs a field `{}` of type {ty}, which `{class_name}` lacks",
                            of.name, need.name.name
                        )
                    }
                };
                let diagnostic = Diagnostic::new(Code::Needs, span, message, "used here");
                self.report.push(diagnostic.and(need.name.span, "needed here"));
            }
        }
    }

    /// Checks the fields of indexes. Those that are declared rightly.
    pub(super) fn indexes(&mut self, class: usize, tree: &Class) -> Vec<Vec<Name>> {
        let mut indexes: Vec<(Vec<Name>, Span)> = Vec::new();
        for index in &tree.indexes {
            let origin = self.origin_of(class, index.span);
            let fields = self.at(class, origin, |checker| checker.index(class, index));
            let Some(fields) = fields else { continue };
            if let Some((_, earlier)) = indexes.iter().find(|(earlier, _)| *earlier == fields) {
                let diagnostic = Diagnostic::new(Code::Index, index.span, "this index is declared twice", "again here");
                self.report.push(diagnostic.and(*earlier, "declared here").help("remove it"));
                continue;
            }
            indexes.push((fields, index.span));
        }
        indexes.into_iter().map(|(fields, _)| fields).collect()
    }

    fn index(&mut self, class: usize, index: &tree::Index) -> Option<Vec<Name>> {
        let mut fields: Vec<Name> = Vec::new();
        let mut is_right = true;
        for field in &index.fields {
            is_right &= self.indexed(class, field, &fields);
            fields.push(field.name.clone());
        }
        is_right.then_some(fields)
    }

    fn indexed(&mut self, class: usize, field: &Ident, before: &[Name]) -> bool {
        if before.contains(&field.name) {
            let message = format!("`{}` is in this index twice", field.name);
            self.report.push(Diagnostic::new(Code::Index, field.span, message, "again here").help("remove it"));
            return false;
        }
        let header = &self.headers[class];
        let found = header.field(&field.name).map(|field| field.ty.clone());
        let Some(ty) = found.or_else(|| header.identity_field(&field.name).map(|(_, ty)| ty)) else {
            if header.is_open
                || self.broken.contains(&field.name)
                || !self.unknown.insert((Scope::Fields(class), field.name.clone()))
            {
                return false;
            }
            let message = format!("`{}` has no field `{}`", header.name, field.name);
            let diagnostic = Diagnostic::new(Code::UnknownName, field.span, message, "no such field");
            let names = header.fields.iter().map(|field| &*field.name.name);
            let diagnostic = diagnostic.did_you_mean(&field.name, names);
            self.report.push(diagnostic);
            return false;
        };
        if let Type::Set(_) | Type::List(_) | Type::Map(_) = ty.present() {
            let message = format!("`{}` is of type {ty}, and an index is of single values", field.name);
            self.refuse(Code::Index, field.span, message, "many values", "leave it out");
            return false;
        }
        if let Type::Personal(_) = ty {
            let message = format!("`{}` is personal, and an index is of what can be looked up", field.name);
            self.refuse(Code::Index, field.span, message, "is personal", "leave it out");
            return false;
        }
        true
    }

    /// Refuses parts of an external class that say what happens.
    pub(super) fn external_parts(&mut self, class: &Class) {
        let mut refused: Vec<(Span, &str)> = Vec::new();
        refused.extend(class.invariants.iter().map(|rule| (rule.condition.span, "an invariant")));
        refused.extend(class.fields.iter().filter_map(|field| Some((field.default.as_ref()?.span, "a default"))));
        for event in class.states.iter().flat_map(|group| &group.events) {
            let tree::Sections { lets, guards, effects, syncs, returned } = &event.sections;
            let has_parts = !lets.is_empty() || !guards.is_empty() || !effects.is_empty() || !syncs.is_empty();
            if has_parts || returned.is_some() || !event.variants.is_empty() {
                refused.push((event.name.span, "what an event does"));
            }
        }
        for (span, part) in refused {
            let message = format!("an external class only names events, and this is {part}");
            let help = "who keeps its instances decides; remove it, or remove `external`";
            self.refuse(Code::External, span, message, "decided elsewhere", help);
        }
    }
}

/// The class in whose text the event stands, as an origin: that of a shared event is where it is used.
fn home(origin: usize, origins: &[Origin]) -> usize {
    match origins.get(origin) {
        // A shared event needs no extent.
        Some(of) if origin > 0 && of.span.is_none() => of.outer,
        _ => origin,
    }
}

impl Origin {
    fn of(home: &Home<'_>, name: &Name, copied: Option<(Span, Name)>) -> Self {
        Self {
            module: home.module,
            rounding: home.file.rounding,
            span: None,
            config: Vec::new(),
            arguments: Vec::new(),
            outer: 0,
            needs: Vec::new(),
            copied,
            name: name.clone(),
        }
    }
}

/// From the name of a class to the next declaration that could be copied into another one.
fn extent(class: &Class, file: &File) -> Span {
    let start = class.name.span.start;
    let next = file.classes.iter().map(|other| other.name.span.start).filter(|other| *other > start).min();
    Span { end: next.unwrap_or(usize::MAX), ..class.name.span }
}

/// How many declarations a class has.
fn size(class: &Class) -> usize {
    let of = |sections: &tree::Sections| {
        let effects: usize = sections.effects.iter().map(Statement::size).sum();
        let calls: usize = sections.syncs.iter().map(Statement::size).sum();
        sections.lets.len() + sections.guards.len() + effects + calls
    };
    let events = class.states.iter().flat_map(|group| &group.events);
    let events = events.map(|event| {
        let variants: usize = event.variants.iter().map(|variant| 1 + of(&variant.sections)).sum();
        1 + event.params.len() + of(&event.sections) + variants
    });
    let timers: usize = class.states.iter().map(|group| group.timers.len()).sum();
    class.fields.len() + class.invariants.len() + class.states.len() + timers + events.sum::<usize>()
}

/// A class that has what a shared event needs, and the event: to check it where no class uses it.
fn stand_in(shared: &Shared) -> Class {
    let place = |name: &str| Ident { name: name.into(), span: shared.name.span };
    let fields = shared.needs.iter().map(|need| tree::Field {
        documentation: String::new(),
        name: need.name.clone(),
        ty: need.ty.clone(),
        identity: None,
        default: None,
    });
    let targets = shared.variants.iter().filter_map(|variant| variant.target.clone());
    let event = tree::Event {
        documentation: String::new(),
        internal: false,
        read: false,
        name: shared.name.clone(),
        params: shared.params.clone(),
        result: shared.result.clone(),
        roles: shared.roles.clone(),
        target: None,
        sections: shared.sections.clone(),
        variants: shared.variants.clone(),
        origin: 0,
        replaced: Vec::new(),
    };
    let group = |states: Vec<Ident>, events: Vec<tree::Event>| tree::StateGroup {
        label: StateLabel::None,
        states,
        events,
        uses: Vec::new(),
        timers: Vec::new(),
    };
    Class {
        documentation: String::new(),
        kind: ClassKind::Shared,
        name: shared.name.clone(),
        config: Vec::new(),
        extends: None,
        fields: fields.collect(),
        invariants: Vec::new(),
        indexes: Vec::new(),
        states: vec![group(vec![place("")], vec![event]), group(targets.collect(), Vec::new())],
    }
}
