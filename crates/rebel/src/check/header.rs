//! Headers of classes: what other classes and the bodies need to know.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Checker, Declared, Scope, graph};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::{DEPTH_MAX, KEY_FIELDS_MAX};
use crate::model::{Param, StateKind};
use crate::source::Span;
use crate::syntax::tree::{self, ClassKind, File, Ident, StateLabel};
use crate::value::{Currency, Decimal, KeyType, Name, RecordType, Type};

pub(super) struct FieldHeader {
    pub(super) name: Ident,
    pub(super) ty: Type,
    pub(super) has_default: bool,
    /// The rank of the name among all fields, which is its index in bindings of all of them.
    pub(super) slot: usize,
}

pub(super) struct EventHeader {
    pub(super) name: Ident,
    pub(super) params: Vec<Param>,
    /// Whether a parameter or the result has no type, which is reported.
    pub(super) is_broken: bool,
    pub(super) internal: bool,
    pub(super) read: bool,
    pub(super) result: Option<Type>,
    /// Of which the caller needs one, if there are any.
    pub(super) roles: Vec<Name>,
}

pub(super) struct ClassHeader {
    pub(super) name: Name,
    pub(super) kind: ClassKind,
    /// Whether it is not known what it copies, so that it may have more than it seems to.
    pub(super) is_open: bool,
    pub(super) identity: Vec<Ident>,
    pub(super) key_type: KeyType,
    pub(super) fields: Vec<FieldHeader>,
    pub(super) states: Vec<(Ident, StateKind)>,
    pub(super) events: Vec<EventHeader>,
}

impl ClassHeader {
    pub(super) fn ty(&self) -> Type {
        Type::Reference { class: self.name.clone(), key: self.key_type.clone() }
    }

    /// The number and the type of the field of the identity that has this name.
    pub(super) fn identity_field(&self, name: &str) -> Option<(usize, Type)> {
        let index = self.identity.iter().position(|field| *field.name == *name)?;
        let ty = match &self.key_type {
            KeyType::Composite(parts) => parts.get(index)?.as_type()?,
            single => single.as_type()?,
        };
        Some((index, ty))
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldHeader> {
        self.fields.iter().find(|field| *field.name.name == *name)
    }

    pub(super) fn event(&self, name: &str) -> Option<usize> {
        self.events.iter().position(|event| *event.name.name == *name)
    }

    /// The state of that name: its name as declared, which comparisons find equal without reading it, and its kind.
    pub(super) fn state(&self, name: &str) -> Option<(&Name, StateKind)> {
        self.states.iter().find(|(state, _)| *state.name == *name).map(|(state, kind)| (&state.name, *kind))
    }

    /// The names of all fields, those of the identity included.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.fields.iter().map(|field| &field.name.name).chain(self.identity.iter().map(|identity| &identity.name))
    }

    pub(super) fn state_names(&self) -> impl Iterator<Item = &str> {
        self.states.iter().map(|(state, _)| &*state.name)
    }

    pub(super) fn event_names(&self) -> impl Iterator<Item = &str> {
        self.events.iter().map(|event| &*event.name.name)
    }
}

/// The fields of identities, by class, and the types that they make as far as these are known.
struct Identities<'a> {
    names: Vec<&'a Name>,
    fields: Vec<Vec<&'a tree::Field>>,
    types: Vec<Option<KeyType>>,
    /// The classes whose identities are being looked at.
    path: Vec<usize>,
}

impl<'a> Identities<'a> {
    fn new(classes: &[&'a tree::Class]) -> Self {
        let of = |class: &&'a tree::Class| class.fields.iter().filter(|field| field.identity.is_some()).collect();
        let names = classes.iter().map(|class| &class.name.name).collect();
        Self { names, fields: classes.iter().map(of).collect(), types: vec![None; classes.len()], path: Vec::new() }
    }
}

impl Checker {
    pub(super) fn headers(&mut self, files: &[File], classes: &[tree::Class]) {
        let order = self.in_order_of_copies(classes);
        let classes: Vec<&tree::Class> = classes.iter().collect();
        let mut identities = Identities::new(&classes);
        for class in 0..classes.len() {
            self.key_type(class, &mut identities);
        }
        let Identities { fields, types, .. } = identities;
        for (index, (class, (fields, key_type))) in classes.iter().zip(fields.into_iter().zip(types)).enumerate() {
            let is_open = self.reuse_is_unknown.contains(&index) || class.kind == ClassKind::Shared;
            let identity = fields.into_iter().map(|field| field.name.clone()).collect();
            let (name, key_type) = (class.name.name.clone(), key_type.unwrap_or(KeyType::String));
            let (fields, states, events) = (Vec::new(), Vec::new(), Vec::new());
            let kind = class.kind;
            self.headers.push(ClassHeader { name, kind, is_open, identity, key_type, fields, states, events });
        }
        self.records(files);
        for index in order {
            let class = classes[index];
            let fields = self.fields(class, index);
            let states = self.at(index, 0, |checker| checker.states(class, index));
            let events = self.events(class, index);
            let header = &mut self.headers[index];
            (header.fields, header.states, header.events) = (fields, states, events);
            self.needs_of_events(index);
            if class.kind == ClassKind::External {
                self.external_parts(class);
            }
        }
    }

    /// The type of the identity of a class, from its syntax alone: types that refer to classes need it.
    fn key_type(&mut self, class: usize, identities: &mut Identities<'_>) -> KeyType {
        if let Some(ty) = &identities.types[class] {
            return ty.clone();
        }
        let fields = identities.fields[class].clone();
        if identities.path.contains(&class) || identities.path.len() > DEPTH_MAX {
            let span = fields.first().map_or(Span { source: 0, start: 0, end: 0 }, |field| field.name.span);
            let help = "an identity is made of values that are known without it";
            self.refuse(Code::Identity, span, "this identity holds itself", "this identity", help);
            identities.types[class] = Some(KeyType::String);
            return KeyType::String;
        }
        identities.path.push(class);
        let mut types: Vec<KeyType> = fields
            .iter()
            .map(|field| {
                let origin = self.origin_of(class, field.name.span);
                self.at(class, origin, |checker| checker.identity_type(field, identities))
            })
            .collect();
        identities.path.pop();
        let mut ty = match types.len() {
            0 => KeyType::String,
            1 => types.remove(0),
            _ => KeyType::Composite(types.into()),
        };
        if ty.leaves() > KEY_FIELDS_MAX {
            let message = format!("an identity consists of at most {KEY_FIELDS_MAX} values");
            let help = "those of instances that it refers to count";
            self.refuse(Code::Limit, fields[0].name.span, message, "too many", help);
            ty = KeyType::String;
        }
        identities.types[class].get_or_insert(ty).clone()
    }

    fn identity_type(&mut self, field: &tree::Field, identities: &mut Identities<'_>) -> KeyType {
        if let Some(default) = &field.default {
            let diagnostic = Diagnostic::new(Code::Identity, default.span, "an identity has no default", "a default");
            self.report.push(diagnostic.help("the identity is given by the request that addresses the instance"));
        }
        let built_in = |name: &str| Type::BUILT_IN.iter().find(|(known, _)| *known == name);
        if let tree::Type::Named(name) = &field.ty {
            if let Some(ty) = built_in(&name.name).and_then(|(_, ty)| KeyType::of(ty)) {
                return ty;
            }
            match self.declared.get(&name.name) {
                Some((Declared::Class(class), _)) => {
                    let (class, of) = (*class, identities.names[*class].clone());
                    let key = self.key_type(class, identities).into();
                    return KeyType::Reference { class: of, key };
                }
                Some((Declared::Enum(enumeration), _)) => return KeyType::Enum(enumeration.clone()),
                // That there is no such type is said when the fields are looked at.
                _ if built_in(&name.name).is_none() => return KeyType::String,
                _ => {}
            }
        }
        let help = "an identity is a String, Integer, Id, Iban, Date, Currency, a variant of an enum, or an instance of a class";
        self.refuse(Code::Identity, field.name.span, "no type for an identity", "this identity", help);
        KeyType::String
    }

    /// The records, each after those that it holds.
    fn records(&mut self, files: &[File]) {
        let mut records: Vec<(&tree::Record, usize)> = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let module = self.module_of_file(index);
            records.extend(file.records.iter().map(|record| (record, module)));
        }
        let needs: Vec<Vec<usize>> = records
            .iter()
            .map(|(record, module)| {
                let mut needs = Vec::new();
                for field in &record.fields {
                    mentioned(&field.ty, &mut |name| {
                        let declared = self.declaration(*module, name);
                        needs.extend(records.iter().position(|(other, _)| Some(other.name.span) == declared));
                    });
                }
                needs
            })
            .collect();
        let order = match graph::order(&needs) {
            Ok(order) => order,
            Err(circle) => {
                let (first, _) = records[circle[0]];
                let message = format!("the record `{}` holds itself", first.name.name);
                let help = "a value has an end: refer to an instance of a class instead";
                self.refuse(Code::Recursion, first.name.span, message, "this record", help);
                return;
            }
        };
        for index in order {
            let (record, module) = records[index];
            let outer = self.enter(module);
            self.record(record);
            self.publish(&record.name);
            self.enter(outer);
        }
    }

    fn record(&mut self, record: &tree::Record) {
        let mut fields: Vec<(Name, Type)> = Vec::new();
        for field in &record.fields {
            if fields.iter().any(|(name, _)| *name == field.name.name) {
                let message = format!("`{}` is a field twice", field.name.name);
                self.report.push(Diagnostic::new(Code::Duplicate, field.name.span, message, "again here"));
                continue;
            }
            if let Some(span) = field.identity {
                let help = "a value of a record is equal to every other with the same fields";
                self.refuse(Code::OutOfPlace, span, "a record has no identity", "not here", help);
            }
            let Some(ty) = self.ty(&field.ty) else { return };
            fields.push((field.name.name.clone(), ty));
        }
        let record_ty = Arc::new(RecordType::new(record.name.name.clone(), fields));
        if let Some((Declared::Record(declared), _)) = self.declared.get_mut(&record.name.name) {
            *declared = Some(record_ty);
        }
    }

    fn fields(&mut self, class: &tree::Class, number: usize) -> Vec<FieldHeader> {
        let mut fields: Vec<FieldHeader> = Vec::new();
        for (index, field) in class.fields.iter().enumerate() {
            if let Some(earlier) = class.fields[..index].iter().find(|earlier| earlier.name.name == field.name.name) {
                let message = format!("`{}` is a field twice", field.name.name);
                let diagnostic = Diagnostic::new(Code::Duplicate, field.name.span, message, "again here");
                self.report.push(diagnostic.and(earlier.name.span, "declared here"));
                continue;
            }
            let origin = self.origin_of(number, field.name.span);
            let ty = self.at(number, origin, |checker| {
                checker.refuse_library_name(&field.name, "field");
                let (ty, subject) = checker.owned_type(&field.ty)?;
                if let Some(subject) = subject {
                    let help = "a value is somebody's from where it is given: say whose at the parameter";
                    let message = "a field holds the values of anybody";
                    checker.refuse(Code::Personal, subject.span, message, "not here", help);
                }
                Some(ty)
            });
            let (name, has_default) = (field.name.clone(), field.default.is_some());
            match ty {
                _ if field.identity.is_some() => {}
                Some(ty) => fields.push(FieldHeader { name, ty, has_default, slot: 0 }),
                None => _ = self.broken.insert(name.name),
            }
        }
        let mut names: Vec<Name> = fields.iter().map(|field| field.name.name.clone()).collect();
        names.sort();
        for field in &mut fields {
            field.slot = names.binary_search(&field.name.name).unwrap_or(0);
        }
        fields
    }

    /// A field, parameter or variable may not be called like a constant: a name means one thing.
    pub(super) fn refuse_library_name(&mut self, ident: &Ident, noun: &str) {
        if self.refuse_reserved_name(ident) {
            return;
        }
        let library = match self.declared.get(&ident.name) {
            Some((Declared::Constant, span)) => Some(*span),
            _ => None,
        };
        if let Some(span) = library.or(self.config_place(&ident.name).filter(|place| *place != ident.span)) {
            let message = format!("the {noun} `{}` hides a constant", ident.name);
            let diagnostic = Diagnostic::new(Code::Duplicate, ident.span, message, "hides it");
            self.report.push(diagnostic.and(span, "the constant").help("choose another name"));
        }
    }

    /// The states, each once; a state that is named by several groups is one state.
    fn states(&mut self, class: &tree::Class, number: usize) -> Vec<(Ident, StateKind)> {
        let mut states: Vec<(Ident, StateKind)> = Vec::new();
        for group in &class.states {
            let kind = match group.label {
                StateLabel::Initial => StateKind::Initial,
                StateLabel::Final => StateKind::Final,
                StateLabel::None => StateKind::Intermediate,
            };
            for name in &group.states {
                self.refuse_type_name(name);
                match states.iter_mut().find(|(known, _)| known.name == name.name) {
                    None => states.push((name.clone(), kind)),
                    Some((_, known)) if *known == StateKind::Intermediate => *known = kind,
                    Some((known, label)) if kind != StateKind::Intermediate && *label != kind => {
                        let message = format!("`{}` cannot be both initial and final", name.name);
                        let diagnostic = Diagnostic::new(Code::InitialState, name.span, message, "again here");
                        self.report.push(diagnostic.and(known.span, "declared here"));
                    }
                    Some(_) => {}
                }
            }
        }
        states.iter().for_each(|(state, _)| self.refuse_ambiguous_state(class, state));
        let may_have_more = self.headers[number].is_open || class.kind == ClassKind::Abstract;
        let has_initial = states.iter().any(|(_, kind)| *kind == StateKind::Initial);
        if has_initial || !may_have_more {
            self.one_initial_state(class, &states);
        }
        states
    }

    /// A bare name means one thing: what is named like a state is taken for one where a line begins with it.
    fn refuse_ambiguous_state(&mut self, class: &tree::Class, state: &Ident) {
        let fields = class.fields.iter().map(|field| (&field.name, "a field"));
        let events = class.states.iter().flat_map(|group| &group.events);
        let params = events.flat_map(|event| event.params.iter().map(|param| (&param.name, "a parameter")));
        let named = fields.chain(params).find(|(name, _)| name.name == state.name);
        let library = self.declared.get(&state.name).filter(|(declared, _)| !declared.is_type());
        let (span, noun) = match (named, library) {
            (Some((name, noun)), _) => (name.span, noun),
            (None, Some((declared, span))) => (*span, declared.noun()),
            (None, None) => return,
        };
        let message = format!("the state `{}` is named like {noun}", state.name);
        let diagnostic = Diagnostic::new(Code::Duplicate, state.span, message, "a state");
        self.report.push(diagnostic.and(span, noun).help("choose another name"));
    }

    /// A state called like a type is a field without its colon.
    fn refuse_type_name(&mut self, state: &Ident) {
        if self.is_type(&state.name) {
            let message = format!("`{}` is a type, not a state", state.name);
            self.refuse(Code::Duplicate, state.span, message, "a type", "write `name: Type` to declare a field");
        }
    }

    fn one_initial_state(&mut self, class: &tree::Class, states: &[(Ident, StateKind)]) {
        let mut initial = states.iter().filter(|(_, kind)| *kind == StateKind::Initial);
        let Some((first, _)) = initial.next() else {
            let message = format!("`{}` has no initial state", class.name.name);
            let diagnostic = Diagnostic::new(Code::InitialState, class.name.span, message, "this class");
            return self
                .report
                .push(diagnostic.help("write `initial` before the state in which instances do not exist yet"));
        };
        for (second, _) in initial {
            let message = format!("`{}` has more than one initial state", class.name.name);
            let diagnostic = Diagnostic::new(Code::InitialState, second.span, message, "a second one");
            self.report.push(diagnostic.and(first.span, "the first one"));
        }
    }

    fn events(&mut self, class: &tree::Class, number: usize) -> Vec<EventHeader> {
        let mut events: Vec<EventHeader> = Vec::new();
        for event in class.states.iter().flat_map(|group| &group.events) {
            let params = self.at(number, event.origin, |checker| checker.params(&event.params));
            let result = event.result.as_ref().map(|ty| self.at(number, event.origin, |checker| checker.ty(ty)));
            let is_unmet = self.reuse_is_unmet.contains(&(number, event.origin));
            let is_broken = params.len() < event.params.len() || is_unmet || matches!(result, Some(None));
            let result = result.flatten();
            self.refuse_unheard_result(event);
            self.refuse_changes(event);
            let roles = self.demanded_roles(&event.roles);
            let Some(earlier) = events.iter().find(|earlier| earlier.name.name == event.name.name) else {
                let (name, internal, read) = (event.name.clone(), event.internal, event.read);
                events.push(EventHeader { name, params, is_broken, internal, read, result, roles });
                continue;
            };
            let same = |a: &[Param], b: &[Param]| {
                let is_same = |a: &Param, b: &Param| a.name == b.name && a.ty == b.ty && a.subject == b.subject;
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
            };
            let is_known = !is_broken && !earlier.is_broken;
            let has_same_roles =
                roles.len() == earlier.roles.len() && roles.iter().all(|role| earlier.roles.contains(role));
            let is_alike = earlier.internal == event.internal && earlier.read == event.read;
            let has_same_results = is_alike && earlier.result == result;
            let is_same = has_same_results && has_same_roles && same(&earlier.params, &params);
            if is_known && !is_same {
                let span = earlier.name.span;
                self.refuse_other_signature(event, span);
            }
        }
        events
    }

    pub(super) fn params(&mut self, params: &[tree::Param]) -> Vec<Param> {
        let mut names = HashSet::new();
        let mut resolved: Vec<Param> = Vec::new();
        let mut subjects = Vec::new();
        for param in params {
            if !names.insert(&param.name.name) {
                let message = format!("`{}` is a parameter twice", param.name.name);
                self.report.push(Diagnostic::new(Code::Duplicate, param.name.span, message, "again here"));
            }
            let name = param.name.name.clone();
            let slot = params.iter().filter(|other| other.name.name < name).count();
            match self.owned_type(&param.ty) {
                Some((ty, subject)) => {
                    subjects.extend(subject.map(|subject| (resolved.len(), subject)));
                    resolved.push(Param { slot, ..Param::local(name, ty) });
                }
                None => _ = self.broken.insert(name),
            }
        }
        for (index, subject) in subjects {
            resolved[index].subject = self.subject(subject, &resolved);
        }
        resolved
    }

    /// The type that is written, or `None` if that is reported.
    pub(super) fn ty(&mut self, ty: &tree::Type) -> Option<Type> {
        match ty {
            tree::Type::Named(name) => self.named_type(name),
            tree::Type::Of(name, types) => {
                let mut types = types.iter().map(|ty| self.ty(ty)).collect::<Option<Vec<_>>>()?.into_iter();
                let first = types.next()?;
                Some(match (&*name.name, types.next()) {
                    ("List", _) => Type::List(first.into()),
                    (_, Some(second)) => Type::Map((first, second).into()),
                    _ => Type::Set(first.into()),
                })
            }
            tree::Type::With(name, with) => self.narrowed_type(name, with),
            tree::Type::Personal(_, _, span) => {
                self.refuse_personal(*span);
                None
            }
            tree::Type::Optional(ty, span) => {
                let ty = self.ty(ty)?;
                if let Type::Enum(enumeration) = &ty
                    && enumeration.variants.iter().any(|variant| **variant == *"none")
                {
                    let message =
                        format!("`{}` has a variant `none`, which is also how absence is written", enumeration.name);
                    self.refuse(Code::TypeMismatch, *span, message, "two things in one text", "rename the variant");
                    return None;
                }
                Some(Type::Optional(ty.into()))
            }
        }
    }

    /// `Money(EUR)` or `Decimal(2)`.
    fn narrowed_type(&mut self, name: &Ident, with: &Ident) -> Option<Type> {
        match &*name.name {
            "Money" => match with.name.parse::<Currency>() {
                Ok(currency) => Some(Type::MoneyOf(currency)),
                Err(error) => {
                    let diagnostic = Diagnostic::new(Code::Literal, with.span, error.to_string(), "no such currency");
                    self.report.push(diagnostic.did_you_mean(&with.name, Currency::codes()));
                    None
                }
            },
            "Decimal" => {
                let decimals = with.name.parse::<u8>().ok().filter(|decimals| *decimals <= Decimal::DECIMALS_MAX);
                if decimals.is_none() {
                    let message = format!("a Decimal has 0 to {} decimals", Decimal::DECIMALS_MAX);
                    self.refuse(Code::Literal, with.span, message, "no such number", "write it as in `Decimal(2)`");
                }
                decimals.map(Type::Decimal)
            }
            _ => {
                let message = format!("`{}` takes nothing in parentheses", name.name);
                let help = "`Money(EUR)` is an amount in euros, `Decimal(2)` a number with two decimals";
                self.refuse(Code::UnknownType, with.span, message, "not needed", help);
                None
            }
        }
    }

    fn is_type(&self, name: &str) -> bool {
        let is_declared = self.declared.get(name).is_some_and(|(declared, _)| declared.is_type());
        is_declared || Type::BUILT_IN.iter().any(|(built_in, _)| *built_in == name)
    }

    fn named_type(&mut self, ident: &Ident) -> Option<Type> {
        if let Some((_, ty)) = Type::BUILT_IN.iter().find(|(name, _)| *name == &*ident.name) {
            return Some(ty.clone());
        }
        match self.declared.get(&ident.name).cloned() {
            Some((Declared::Class(index), _)) => {
                self.used.insert(ident.name.clone());
                self.instance_type(index, ident)
            }
            Some((Declared::Enum(enumeration), _)) => {
                self.used.insert(ident.name.clone());
                Some(Type::Enum(enumeration))
            }
            Some((Declared::Record(record), _)) => {
                let record = record.clone();
                self.used.insert(ident.name.clone());
                record.map(Type::Record)
            }
            _ if !self.unknown.insert((Scope::Types, ident.name.clone())) => None,
            None if self.explain(Code::UnknownType, &ident.name, ident.span, Declared::is_type) => None,
            other => {
                let message = match other {
                    Some((declared, _)) => format!("`{}` is {}, not a type", ident.name, declared.noun()),
                    None => format!("there is no type `{}`", ident.name),
                };
                let diagnostic = Diagnostic::new(Code::UnknownType, ident.span, message, "no such type");
                let own =
                    self.declared.iter().filter_map(|(name, (declared, _))| declared.is_type().then_some(&**name));
                let built_in = Type::BUILT_IN.iter().map(|(name, _)| *name);
                let mut names: Vec<&str> = built_in.chain(own).collect();
                names.sort_unstable();
                let diagnostic = match &*ident.name {
                    "Set" | "List" => {
                        diagnostic.help(format!("name the type of the elements, as in `{}[Account]`", ident.name))
                    }
                    "Map" => diagnostic.help("name the types of keys and values, as in `Map[Date, Account]`"),
                    "Decimal" => diagnostic.help("say how many decimals it has, as in `Decimal(2)`"),
                    _ => diagnostic.did_you_mean(&ident.name, names),
                };
                self.report.push(diagnostic);
                None
            }
        }
    }

    /// Reports that `class` has no such state.
    pub(super) fn unknown_state(&mut self, class: usize, state: &Ident) {
        if self.headers[class].is_open || !self.unknown.insert((Scope::States(class), state.name.clone())) {
            return;
        }
        let header = &self.headers[class];
        let message = format!("`{}` has no state `{}`", header.name, state.name);
        let diagnostic = Diagnostic::new(Code::UnknownState, state.span, message, "no such state");
        let diagnostic = diagnostic.did_you_mean(&state.name, header.state_names());
        self.report.push(diagnostic);
    }

    pub(super) fn class_of(&self, ty: &Type) -> Option<usize> {
        let Type::Reference { class, .. } = ty else { return None };
        let has_instances = |kind: ClassKind| matches!(kind, ClassKind::Plain | ClassKind::External);
        self.headers.iter().position(|header| header.name == *class && has_instances(header.kind))
    }

    /// The type of instances of a class; an abstract one has none.
    pub(super) fn instance_type(&mut self, class: usize, name: &Ident) -> Option<Type> {
        let header = &self.headers[class];
        if header.kind != ClassKind::Abstract {
            return Some(header.ty());
        }
        if self.unknown.insert((Scope::Types, name.name.clone())) {
            let message = format!("`{}` is abstract: there are no instances of it", name.name);
            self.refuse(Code::Abstract, name.span, message, "no instances", "name a class that extends it");
        }
        None
    }

    /// A label at `span`, for what belongs to no name.
    pub(super) fn refuse(&mut self, code: Code, span: Span, message: impl Into<String>, label: &str, help: &str) {
        self.report.push(Diagnostic::new(code, span, message, label).help(help));
    }
}

/// Every name that a type mentions.
fn mentioned(ty: &tree::Type, visit: &mut dyn FnMut(&Name)) {
    match ty {
        tree::Type::Named(name) => visit(&name.name),
        tree::Type::Of(_, types) => types.iter().for_each(|ty| mentioned(ty, visit)),
        tree::Type::With(..) => {}
        tree::Type::Optional(ty, _) | tree::Type::Personal(ty, ..) => mentioned(ty, visit),
    }
}
