//! Versions: what a `migrate` block says of this version alone, and what it says of an earlier one.
//!
//! # Two times
//! A contract is checked without its earlier versions, which nobody needs to run it anew. So [`Checker::versions`] looks at what a
//! block says of this version: whether classes, fields and states are there. What it says of the earlier one, and whether
//! it says all that must be said, is found by [`Spec::migration`], which is given both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::expression::Context;
use super::header::{ClassHeader, FieldHeader};
use super::library::mentioned;
use super::{Checker, Declared, Scope};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::migration::{ClassMigration, Migration, Origin};
use crate::model::{Class, Spec, StateKind};
use crate::source::Span;
use crate::syntax::tree::{ClassKind, File, Ident, Migrate, MigrateStep, Module, StepKind};
use crate::syntax::{self, Modules, Separation};
use crate::value::{KeyType, Name, RecordType, Rounding, Type};

/// The version that `files`, together one specification, are of.
pub(super) fn version(files: &[File]) -> u32 {
    stated(files).next().map_or(1, |(_, version)| version)
}

/// The modules that state a version, in the order of the sources.
fn stated(files: &[File]) -> impl Iterator<Item = (&Module, u32)> {
    files.iter().filter_map(|file| file.module.as_ref()).filter_map(|module| Some((module, module.version?.0)))
}

/// The `migrate` blocks with the files that they stand in, in the order of the sources.
fn blocks(files: &[File]) -> impl Iterator<Item = (&Migrate, usize)> {
    files.iter().enumerate().flat_map(|(index, file)| file.migrations.iter().map(move |migrate| (migrate, index)))
}

impl Checker {
    /// Checks what is said of versions without a look at an earlier one.
    pub(super) fn versions(&mut self, files: &[File]) {
        let version = self.one_version(files);
        let numbers = files.iter().filter_map(|file| file.module.as_ref()?.version);
        for (_, span) in numbers
            .chain(blocks(files).map(|(migrate, _)| (migrate.from, migrate.number)))
            .filter(|(number, _)| *number == 0)
        {
            self.refuse(Code::Literal, span, "versions begin with 1", "no version", "the first version is 1");
        }
        let mut earlier: BTreeMap<u32, Span> = BTreeMap::new();
        for (migrate, file) in blocks(files) {
            self.enter(self.module_of_file(file));
            if migrate.from >= version {
                let message = format!("this is version {version}: instances do not come to it from {}", migrate.from);
                let help = match stated(files).next() {
                    None => "write the version into the first line, as in `module name version 2`".to_owned(),
                    Some(_) => "`migrate from` names the version before".to_owned(),
                };
                self.refuse(Code::Version, migrate.span, message, "no earlier version", &help);
            }
            if let Some(first) = earlier.insert(migrate.from, migrate.span) {
                let message = format!("it is said twice how instances come from version {}", migrate.from);
                let diagnostic = Diagnostic::new(Code::Duplicate, migrate.span, message, "again here");
                self.report.push(diagnostic.and(first, "said here").help("join the two"));
            }
            self.steps(migrate);
        }
    }

    /// The version of all files that state one.
    fn one_version(&mut self, files: &[File]) -> u32 {
        let mut stated = stated(files);
        let Some((first, version)) = stated.next() else { return 1 };
        for (other, number) in stated.filter(|(_, number)| *number != version) {
            let (name, first_name) = (&other.name.name, &first.name.name);
            let message = format!("`{name}` is of version {number}, and `{first_name}` of version {version}");
            let diagnostic = Diagnostic::new(Code::Version, other.span, message, "another version");
            let help = "a contract has one version, which one of its modules states, or all alike";
            self.report.push(diagnostic.and(first.span, format!("version {version}")).help(help));
        }
        version
    }

    /// What the lines of a block say of this version, and whether they contradict each other.
    fn steps(&mut self, migrate: &Migrate) {
        let mut given: Vec<(Name, &Ident)> = Vec::new();
        let mut taken: Vec<(Name, &Ident)> = Vec::new();
        for step in &migrate.steps {
            let class_name = step.class.name.clone();
            if let StepKind::Value { value, .. } = &step.kind {
                mentioned(value, &mut |name| _ = self.used.insert(name.clone()));
            }
            if let StepKind::Drop { field: None } = step.kind {
                if let Some((Declared::Class(_), declared)) = self.declared.get(&class_name).cloned() {
                    let message = format!("`{class_name}` is dropped, and is a class of this version");
                    let diagnostic = Diagnostic::new(Code::MigrationStep, step.span, message, "dropped");
                    self.report.push(diagnostic.and(declared, "declared here").help("remove one of the two"));
                }
                self.once(&mut taken, class_name.clone(), &step.class, "is dropped twice");
                continue;
            }
            let Some(class) = self.class_of_step(&step.class) else { continue };
            match &step.kind {
                StepKind::Rename { field, to } => {
                    if self.new_field(class, to) {
                        self.once(&mut given, class_name.clone(), to, "is given two values");
                    }
                    self.once(&mut taken, class_name, field, "is spoken of twice");
                }
                StepKind::Drop { field: Some(field) } => {
                    self.once(&mut taken, class_name, field, "is spoken of twice");
                }
                StepKind::Value { field, .. } => {
                    if self.new_field(class, field) {
                        self.once(&mut given, class_name, field, "is given two values");
                    }
                }
                StepKind::State { state, to } => {
                    match self.headers[class].state(&to.name).map(|(_, kind)| kind) {
                        None => self.unknown_state(class, to),
                        Some(StateKind::Initial) => {
                            let message = format!("`{}` is the initial state, in which no instance exists", to.name);
                            let help = "let the instances come into another state, or drop the class";
                            self.refuse(Code::EntersInitial, to.span, message, "enters it", help);
                        }
                        Some(_) => {}
                    }
                    // States have names of their own.
                    let place: Name = format!("{class_name}:").into();
                    self.once(&mut taken, place, state, "is spoken of twice");
                }
                StepKind::Drop { field: None } => {}
            }
        }
    }

    fn once<'a>(&mut self, seen: &mut Vec<(Name, &'a Ident)>, class: Name, ident: &'a Ident, is_twice: &str) {
        if let Some((_, first)) = seen.iter().find(|(of, first)| *of == class && first.name == ident.name) {
            let message = format!("`{}` {is_twice}", ident.name);
            let diagnostic = Diagnostic::new(Code::MigrationStep, ident.span, message, "again here");
            self.report.push(diagnostic.and(first.span, "first here").help("remove one of the two lines"));
            return;
        }
        seen.push((class, ident));
    }

    fn class_of_step(&mut self, ident: &Ident) -> Option<usize> {
        if let Some((Declared::Class(class), _)) = self.declared.get(&ident.name) {
            let class = *class;
            if self.headers[class].kind == ClassKind::Abstract {
                let message = format!("the abstract class `{}` has no instances", ident.name);
                let help = "say it of each class that extends it";
                self.refuse(Code::MigrationStep, ident.span, message, "abstract", help);
                return None;
            }
            return Some(class);
        }
        if self.unknown.insert((Scope::Types, ident.name.clone())) {
            let message = format!("this version has no class `{}`", ident.name);
            let diagnostic = Diagnostic::new(Code::UnknownType, ident.span, message, "no such class");
            let names = self.headers.iter().map(|header| &*header.name).collect::<Vec<_>>();
            self.report.push(diagnostic.did_you_mean(&ident.name, names));
        }
        None
    }

    /// Whether `class` has the field; reports if not.
    fn new_field(&mut self, class: usize, ident: &Ident) -> bool {
        let header = &self.headers[class];
        if header.identity.iter().any(|identity| identity.name == ident.name) {
            let message = format!("`{}` is the identity and never changes", ident.name);
            self.refuse(Code::IdentityAssigned, ident.span, message, "the identity", "remove this line");
            return false;
        }
        let is_known = header.field(&ident.name).is_some();
        if !is_known
            && !self.broken.contains(&ident.name)
            && self.unknown.insert((Scope::Fields(class), ident.name.clone()))
        {
            let header = &self.headers[class];
            let message = format!("`{}` has no field `{}`", header.name, ident.name);
            let diagnostic = Diagnostic::new(Code::UnknownName, ident.span, message, "no such field");
            let diagnostic = diagnostic.did_you_mean(&ident.name, header.fields.iter().map(|field| &*field.name.name));
            self.report.push(diagnostic);
        }
        is_known
    }
}

impl Spec {
    /// How the instances of `earlier`, an earlier version of this contract, come to this one: as the `migrate from` block for
    /// that version says, and unchanged where it says nothing. The version right before this one needs no block.
    ///
    /// # Errors
    /// A [`Report`] with at least one error: `earlier` is no earlier version, nothing is said of it, or something is not said that
    /// has to be. A field is kept if it has the same name, and a type with all values of the earlier one. A new field
    /// needs a default or a value, and whatever is lost has to be dropped.
    ///
    /// ```
    /// use enact_rebel::{Source, Value, check};
    /// let old = check(vec![Source::new("tank.rebel", "
    ///     class Tank
    ///       litres: Integer
    ///       initial empty
    ///         on Fill(by: Integer): filled
    ///           post: this.litres = by
    ///       filled
    /// ")]).unwrap();
    /// let new = check(vec![Source::new("tank.rebel", "module tanks version 2
    /// class Tank
    ///   decilitres: Integer
    ///   initial empty
    ///     on Fill(by: Integer): filled
    ///       post: this.decilitres = by
    ///   filled
    /// migrate from 1
    ///   drop Tank.litres
    ///   Tank.decilitres = litres * 10
    /// ")]).unwrap();
    /// let migration = new.migration(&old).unwrap();
    ///
    /// let (tank, now) = (old.class("Tank").unwrap(), enact_rebel::Timestamp::from_millis(0));
    /// let (key, fill) = (tank.key("t1").unwrap(), tank.event("Fill").unwrap().call([("by", Value::Integer(7))]).unwrap());
    /// let filled = tank.next(&key, &tank.initial(), &fill, now).unwrap();
    /// let migrated = migration.instance("Tank", &key, &filled).unwrap().unwrap();
    /// assert_eq!(migrated.fields().get("decilitres"), Some(&Value::Integer(70)));
    /// ```
    pub fn migration(&self, earlier: &Spec) -> Result<Migration, Report> {
        let sources = self.warnings.sources().to_vec();
        let modules = Modules::of(&sources);
        let files: Vec<File> = sources
            .iter()
            .enumerate()
            .map(|(index, source)| {
                syntax::parse(index, &source.text, Separation::Lines, &modules, &mut 0, &mut |_| ()).file
            })
            .collect();
        let mut checker = Checker::new(Report::new(sources));
        checker.modules(&files);
        checker.names(&files);
        checker.link(&files, false);
        let trees = checker.expand(&files);
        checker.headers(&files, &trees);
        checker.library(&files);
        // What is wrong with this version alone was said when it was checked.
        checker.report.retain(|_, _| false);
        let found =
            Migrating { checker: &mut checker, spec: self, earlier, fitting: Fitting::default() }.migration(&files);
        checker.report.retain(|diagnostic, _| !diagnostic.code.is_warning());
        match found {
            Some(migration) if !checker.report.has_errors() => Ok(migration),
            _ => {
                checker.report.sort();
                Err(checker.report)
            }
        }
    }
}

/// Two versions on the way to a migration.
struct Migrating<'a> {
    checker: &'a mut Checker,
    spec: &'a Spec,
    earlier: &'a Spec,
    fitting: Fitting,
}

/// The lines of one block, and where to say what is missing.
struct Lines<'a> {
    steps: &'a [MigrateStep],
    rounding: Rounding,
    from: u32,
    is_written: bool,
    at: Span,
    /// Where a further line would stand.
    end: Span,
}

impl Migrating<'_> {
    fn migration(&mut self, files: &[File]) -> Option<Migration> {
        let (from, to) = (self.earlier.version, self.spec.version);
        let stated = stated(files).next().map(|(module, _)| module.span);
        let head = stated.unwrap_or(Span { source: 0, start: 0, end: 0 });
        if from >= to {
            let message = format!("version {to} does not come after version {from}");
            self.checker.refuse(
                Code::Version,
                head,
                message,
                "this version",
                "a changed contract has a greater version",
            );
            return None;
        }
        let block = blocks(files).find(|(migrate, _)| migrate.from == from);
        if block.is_none() && from + 1 < to {
            let message = format!("version {to} does not say how instances come to it from version {from}");
            let help = format!("adopt version {} first, or add `migrate from {from}`", from + 1);
            self.checker.refuse(Code::Version, head, message, "this version", &help);
            return None;
        }
        let lines = match block {
            Some((migrate, file)) => {
                let rounding = files[file].rounding;
                self.checker.enter(self.checker.module_of_file(file));
                let last = migrate.steps.last().map_or(migrate.span, |step| step.span);
                let end = Span { start: last.end, ..last };
                Lines { steps: &migrate.steps, rounding, from, is_written: true, at: migrate.span, end }
            }
            None => Lines { steps: &[], rounding: Rounding::default(), from, is_written: false, at: head, end: head },
        };
        let names: HashSet<&Name> = self.earlier.classes.iter().map(|class| &class.name).collect();
        for step in lines.steps.iter().filter(|step| !names.contains(&step.class.name)) {
            let message = format!("version {from} has no class `{}`", step.class.name);
            let help = "instances of a new class are created by its events; remove this line";
            self.checker.refuse(Code::MigrationStep, step.class.span, message, "no such class", help);
        }
        let mut classes = BTreeMap::new();
        for earlier in &self.earlier.classes {
            let name = &earlier.name;
            let migration = match self.spec.class(name) {
                Some(class) => self.class(earlier, class, &lines),
                None => {
                    if !lines.of(name).any(|step| matches!(step.kind, StepKind::Drop { field: None })) {
                        let what = format!("the class `{name}` of version {from} is gone, and its instances with it");
                        self.missing(&lines, what, &format!("drop {name}"), true, None);
                    }
                    None
                }
            };
            classes.insert(name.clone(), migration);
        }
        Some(Migration { from, to, classes })
    }

    fn class(&mut self, earlier: &Arc<Class>, class: &Arc<Class>, lines: &Lines<'_>) -> Option<ClassMigration> {
        let name = &class.name;
        if !self.fitting.key_fits(&earlier.key_type, &class.key_type) {
            let (new, old) = (&class.key_type, &earlier.key_type);
            let message = format!("the identity of `{name}` is of type {new}, and was of type {old}");
            let help =
                "instances keep the identity they are addressed by; declare a class of another name, and drop this";
            self.checker.refuse(Code::NotMigrated, lines.at, message, "changes the identity", help);
        }
        let before = self.checker.report.errors().count();
        self.refuse_unknown(earlier, lines);
        // A line that is wrong may be the one that would be missed.
        let is_sure = self.checker.report.errors().count() == before;
        let states = self.states(earlier, class, lines, is_sure);
        let (fields, lost) = self.fields(earlier, class, lines, is_sure);
        Some(ClassMigration { earlier: earlier.clone(), class: class.clone(), states, fields, lost })
    }

    /// Refuses lines about fields and states that the earlier class does not have.
    fn refuse_unknown(&mut self, earlier: &Class, lines: &Lines<'_>) {
        for step in lines.of(&earlier.name) {
            let (what, ident, names): (_, _, Vec<&str>) = match &step.kind {
                StepKind::Rename { field, .. } | StepKind::Drop { field: Some(field) } => {
                    ("field", field, earlier.fields.iter().map(|field| &*field.name).collect())
                }
                StepKind::State { state, .. } => {
                    let is_initial = earlier.is_initial(&state.name);
                    if is_initial {
                        let message = format!("no instance exists in the initial state `{}`", state.name);
                        let help = "remove this line";
                        self.checker.refuse(Code::MigrationStep, state.span, message, "the initial state", help);
                        continue;
                    }
                    ("state", state, earlier.states.iter().map(|state| &*state.name).collect())
                }
                _ => continue,
            };
            if names.contains(&&*ident.name) {
                continue;
            }
            let is_identity = what == "field" && earlier.identity.contains(&ident.name);
            let message = if is_identity {
                format!("`{}` was the identity, which every instance keeps", ident.name)
            } else {
                format!("`{}` of version {} has no {what} `{}`", earlier.name, lines.from, ident.name)
            };
            let label = if is_identity { "the identity".to_owned() } else { format!("no such {what}") };
            let diagnostic = Diagnostic::new(Code::MigrationStep, ident.span, message, label);
            self.checker.report.push(match is_identity {
                true => diagnostic.help("remove this line"),
                false => diagnostic.did_you_mean(&ident.name, names),
            });
        }
    }

    fn states(&mut self, earlier: &Class, class: &Class, lines: &Lines<'_>, is_sure: bool) -> BTreeMap<Name, Name> {
        let mut states = BTreeMap::new();
        for state in earlier.states.iter().filter(|state| state.kind != StateKind::Initial) {
            let name = &state.name;
            let mut said = lines.of(&class.name).filter_map(|step| match &step.kind {
                StepKind::State { state, to } if state.name == *name => Some(&to.name),
                _ => None,
            });
            let target = said.next().unwrap_or(name);
            match class.states.iter().find(|known| known.name == *target) {
                Some(known) if known.kind != StateKind::Initial => {
                    states.insert(name.clone(), known.name.clone());
                }
                // A wrong target is reported where it is written.
                _ if target != name || !is_sure => {}
                found => {
                    let why = if found.is_some() { "is initial now" } else { "is gone" };
                    let what = format!("the state `{name}` of `{}` {why}, and instances are in it", class.name);
                    self.missing(lines, what, &format!("state {}.{name} -> ..", class.name), false, None);
                }
            }
        }
        states
    }

    fn fields(
        &mut self,
        earlier: &Class,
        class: &Arc<Class>,
        lines: &Lines<'_>,
        is_sure: bool,
    ) -> (Vec<(Name, Origin)>, Vec<Name>) {
        let header = self.header_of(earlier, lines.at);
        let renamed = |name: &Name| {
            lines.of(&class.name).find_map(|step| match &step.kind {
                StepKind::Rename { field, to } if to.name == *name => Some(field.clone()),
                _ => None,
            })
        };
        let is_taken = |name: &Name| {
            lines.of(&class.name).any(|step| match &step.kind {
                StepKind::Rename { field, .. } | StepKind::Drop { field: Some(field) } => field.name == *name,
                _ => false,
            })
        };
        let mut fields = Vec::new();
        let mut kept: Vec<Name> = Vec::new();
        for field in &class.fields {
            let (name, ty) = (&field.name, &field.ty);
            let computed = lines.of(&class.name).find_map(|step| match &step.kind {
                StepKind::Value { field, value } if field.name == *name => Some(value),
                _ => None,
            });
            if let Some(value) = computed {
                let mut context = Context::invariant(header, lines.rounding);
                if let Some(typed) = self.checker.expect(value, &mut context, ty) {
                    self.checker.refuse_uses(&typed.expr);
                    let text = self.checker.text(value.span);
                    fields.push((name.clone(), Origin::Value(Box::new(typed.expr), text)));
                }
                if !is_taken(name) {
                    kept.push(name.clone());
                }
                continue;
            }
            let source = renamed(name);
            let from = source.as_ref().map_or(name, |source| &source.name);
            let old =
                earlier.fields.iter().find(|old| old.name == *from).filter(|_| source.is_some() || !is_taken(from));
            match old {
                Some(old) if self.fitting.fits(&old.ty, ty) => {
                    kept.push(old.name.clone());
                    fields.push((name.clone(), Origin::Field(old.name.clone())));
                }
                Some(old) => {
                    kept.push(old.name.clone());
                    let what = changed_type(&class.name, name, &old.ty, ty);
                    self.missing(lines, what, &format!("{}.{name} = ..", class.name), false, source.map(|at| at.span));
                }
                // A rename of nothing is reported where it is written.
                None if source.is_some() => {}
                None => match class.initial.fields().get(name) {
                    Some(value) => fields.push((name.clone(), Origin::Default(value.clone()))),
                    None => {
                        let what = format!("the field `{name}` of `{}` is new and has no default", class.name);
                        self.missing(lines, what, &format!("{}.{name} = ..", class.name), false, None);
                    }
                },
            }
        }
        let mut lost = Vec::new();
        for old in earlier.fields.iter().map(|old| &old.name) {
            if lines
                .of(&class.name)
                .any(|step| matches!(&step.kind, StepKind::Drop { field: Some(field) } if field.name == *old))
            {
                lost.push(old.clone());
            } else if is_sure && !kept.contains(old) && !is_taken(old) {
                let what = format!("the field `{old}` of `{}` is gone, and its values with it", class.name);
                self.missing(lines, what, &format!("drop {}.{old}", class.name), true, None);
            }
        }
        (fields, lost)
    }

    /// The earlier class as expressions read it: a type that has all values of an earlier one stands for it.
    fn header_of(&mut self, earlier: &Class, at: Span) -> usize {
        let ident = |name: &Name| Ident { name: name.clone(), span: at };
        let fields = earlier.fields.iter().map(|field| FieldHeader {
            name: ident(&field.name),
            ty: self.lifted(&field.ty),
            has_default: true,
            slot: field.slot,
        });
        let fields = fields.collect();
        let header = ClassHeader {
            name: earlier.name.clone(),
            kind: ClassKind::Plain,
            is_open: false,
            identity: earlier.identity.iter().map(ident).collect(),
            key_type: earlier.key_type.clone(),
            fields,
            states: earlier.states.iter().map(|state| (ident(&state.name), state.kind)).collect(),
            events: Vec::new(),
        };
        self.checker.headers.push(header);
        self.checker.headers.len() - 1
    }

    /// The type of this version that has all values of the earlier type `old`, if there is one under its name.
    fn lifted(&mut self, old: &Type) -> Type {
        let new = match old {
            Type::Enum(enumeration) => {
                let named = self.spec.enums.iter().filter(|new| new.name == enumeration.name);
                let mut named = named.map(|new| Type::Enum(new.clone()));
                named.find(|new| self.fitting.fits(old, new))
            }
            Type::Record(record) => match self.checker.declared.get(&record.name) {
                Some((Declared::Record(Some(new)), _)) => Some(Type::Record(new.clone())),
                _ => None,
            },
            Type::Reference { class, .. } => {
                self.spec.class(class).map(|new| Type::Reference { class: class.clone(), key: new.key_type.clone() })
            }
            Type::Set(element) => Some(Type::Set(Box::new(self.lifted(element)))),
            Type::List(element) => Some(Type::List(Arc::new(self.lifted(element)))),
            Type::Map(types) => Some(Type::Map(Arc::new((self.lifted(&types.0), self.lifted(&types.1))))),
            Type::Optional(present) => Some(Type::Optional(Arc::new(self.lifted(present)))),
            Type::Personal(of) => Some(Type::Personal(Arc::new(self.lifted(of)))),
            _ => None,
        };
        new.filter(|new| self.fitting.fits(old, new)).unwrap_or_else(|| old.clone())
    }

    /// Reports that `line` is missing; `is_whole` if it can be added as it is.
    fn missing(&mut self, lines: &Lines<'_>, what: String, line: &str, is_whole: bool, at: Option<Span>) {
        let label = if lines.is_written { "does not say so" } else { "says nothing of it" };
        let diagnostic = Diagnostic::new(Code::NotMigrated, at.unwrap_or(lines.at), what, label);
        let from = lines.from;
        let help = match lines.is_written {
            true => format!("add the line `{line}` below `migrate from {from}`"),
            false => format!("add `migrate from {from}` with the line `{line}`"),
        };
        let diagnostic = diagnostic.help(help);
        self.checker.report.push(match is_whole && lines.is_written {
            true => diagnostic.edit(lines.end, format!("\n  {line}")),
            false => diagnostic,
        });
    }
}

impl<'a> Lines<'a> {
    fn of(&self, class: &'a Name) -> impl Iterator<Item = &'a MigrateStep> + use<'a> {
        self.steps.iter().filter(move |step| step.class.name == *class)
    }
}

fn changed_type(class: &Name, field: &Name, old: &Type, new: &Type) -> String {
    if let (Type::Enum(old), Type::Enum(new)) = (old, new)
        && old.name == new.name
    {
        let lost = old.variants.iter().filter(|variant| !new.variants.contains(variant));
        let lost = lost.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        return format!("the field `{field}` of `{class}` may be {lost}, which `{}` does not have any more", old.name);
    }
    match (old.to_string(), new.to_string()) {
        (old, new) if old == new => {
            format!("the field `{field}` of `{class}` is of type {new}, which is another one than it was")
        }
        (old, new) => format!("the field `{field}` of `{class}` is of type {new}, and was of type {old}"),
    }
}

/// Which types of the later version have all values of one of the earlier.
#[derive(Default)]
struct Fitting {
    /// What is known of records, by name: one may be a part of many.
    records: HashMap<Name, bool>,
}

impl Fitting {
    /// Whether every value of type `old` is one of type `new`.
    fn fits(&mut self, old: &Type, new: &Type) -> bool {
        match (old, new) {
            (Type::Enum(old), Type::Enum(new)) => {
                old.name == new.name && old.variants.iter().all(|variant| new.variants.contains(variant))
            }
            (Type::Record(old), Type::Record(new)) => old.name == new.name && self.record_fits(old, new),
            (Type::Set(old), Type::Set(new)) => self.fits(old, new),
            (Type::List(old), Type::List(new)) | (Type::Personal(old), Type::Personal(new)) => self.fits(old, new),
            (Type::Map(old), Type::Map(new)) => self.fits(&old.0, &new.0) && self.fits(&old.1, &new.1),
            (Type::Optional(_), Type::Optional(_)) => self.fits(old.present(), new.present()),
            (old, Type::Optional(_)) => self.fits(old, new.present()),
            (Type::MoneyOf(_), Type::Money) => true,
            (Type::Reference { class: old, key: old_key }, Type::Reference { class: new, key: new_key }) => {
                old == new && self.key_fits(old_key, new_key)
            }
            _ => old == new,
        }
    }

    fn record_fits(&mut self, old: &RecordType, new: &RecordType) -> bool {
        if let Some(known) = self.records.get(&old.name) {
            return *known;
        }
        let pairs = || old.fields.iter().zip(&new.fields);
        let fits = old.fields.len() == new.fields.len()
            && pairs().all(|((old, _), (new, _))| old == new)
            && pairs().all(|((_, old), (_, new))| self.fits(old, new));
        self.records.insert(old.name.clone(), fits);
        fits
    }

    fn key_fits(&mut self, old: &KeyType, new: &KeyType) -> bool {
        match (old, new) {
            (KeyType::Enum(old), KeyType::Enum(new)) => self.fits(&Type::Enum(old.clone()), &Type::Enum(new.clone())),
            (KeyType::Reference { class: old, key: old_key }, KeyType::Reference { class: new, key: new_key }) => {
                old == new && self.key_fits(old_key, new_key)
            }
            (KeyType::Composite(old), KeyType::Composite(new)) => {
                old.len() == new.len() && old.iter().zip(&**new).all(|(old, new)| self.key_fits(old, new))
            }
            _ => old == new,
        }
    }
}
