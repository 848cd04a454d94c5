//! Modules: which names each file sees.
//!
//! Files without `module` that are checked together are one namespace. As soon as one of them has a `module`, each file is a module,
//! and sees what it declares and what it imports: under its name, and behind the name of the module. The checker looks names up in
//! the tables of the module that it reads ([`Checker::enter`]), so that what is found there is what the text can mean.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Checker, Declared, FunctionHeader, Scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Module;
use crate::source::Span;
use crate::syntax::tree::{File, Ident, Import};
use crate::value::{Name, Type, Value};

/// What the names of a file mean, while the checker reads another one.
#[derive(Default)]
pub(super) struct View {
    declared: HashMap<Name, (Declared, Span)>,
    constants: HashMap<Name, (Type, Value)>,
    functions: HashMap<Name, FunctionHeader>,
    used: HashSet<Name>,
    unknown: HashSet<(Scope, Name)>,
}

/// What is known of each module beside its tables.
#[derive(Default)]
pub(super) struct Modules {
    /// The module of each file.
    of_file: Vec<usize>,
    modules: Vec<Facts>,
    /// Where a declaration is seen under a name: in other modules, or behind its own.
    seen: HashMap<Span, Vec<(usize, Name)>>,
    pub(super) views: Vec<View>,
    pub(super) current: usize,
}

#[derive(Default)]
struct Facts {
    name: Option<Name>,
    /// What it declares itself, in the order of the text.
    own: Vec<(Name, Declared, Span)>,
    /// Names that several imports bring, with the modules that declare them.
    ambiguous: HashMap<Name, Vec<(Name, Span)>>,
    /// What it imports by a list: the module and the place behind the last name.
    lists: Vec<(Name, Span)>,
    /// Where a further import goes.
    imports_end: Option<Span>,
    source: usize,
}

impl Checker {
    /// Makes the modules of the files.
    pub(super) fn modules(&mut self, files: &[File]) -> Vec<Module> {
        let is_one = files.iter().all(|file| file.module.is_none());
        let mut modules: Vec<Module> = Vec::new();
        for (source, file) in files.iter().enumerate() {
            if is_one && source > 0 {
                self.modules.of_file.push(0);
                continue;
            }
            let name = file.module.as_ref().map(|module| module.name.name.clone());
            let head = file.module.as_ref().map(|module| module.span);
            let imports_end = file.imports.last().map(|import| import.span).or(head);
            self.modules.of_file.push(self.modules.modules.len());
            self.modules.modules.push(Facts { name: name.clone(), imports_end, source, ..Facts::default() });
            if let Some(module) = &file.module {
                let earlier = modules.iter().find(|earlier| Some(&earlier.name) == name.as_ref());
                if let Some(earlier) = earlier {
                    let message = format!("two files are the module `{}`", module.name.name);
                    let diagnostic = Diagnostic::new(Code::Duplicate, module.name.span, message, "again here");
                    let help = "one file is one module: choose another name, or join the files";
                    self.report.push(diagnostic.and(earlier.span, "the first one").help(help));
                }
                let version = module.version.map(|(version, _)| version);
                modules.push(Module { name: module.name.name.clone(), version, span: module.name.span, source });
            }
        }
        self.modules.views = self.modules.modules.iter().map(|_| View::default()).collect();
        modules
    }

    pub(super) fn module_of_file(&self, file: usize) -> usize {
        self.modules.of_file[file]
    }

    pub(super) fn module_name(&self, module: usize) -> Option<Name> {
        self.modules.modules.get(module)?.name.clone()
    }

    /// Looks names up in `module` from now on. Returns the module before.
    pub(super) fn enter(&mut self, module: usize) -> usize {
        let before = self.modules.current;
        self.exchange(before);
        self.modules.current = module;
        self.exchange(module);
        before
    }

    fn exchange(&mut self, module: usize) {
        let Some(view) = self.modules.views.get_mut(module) else { return };
        std::mem::swap(&mut self.declared, &mut view.declared);
        std::mem::swap(&mut self.constants, &mut view.constants);
        std::mem::swap(&mut self.functions, &mut view.functions);
        std::mem::swap(&mut self.used, &mut view.used);
        std::mem::swap(&mut self.unknown, &mut view.unknown);
    }

    /// Notes what the module that is being read declares.
    pub(super) fn declares(&mut self, ident: &Ident, declared: Declared) {
        let module = &mut self.modules.modules[self.modules.current];
        module.own.push((ident.name.clone(), declared.clone(), ident.span));
        self.declared.insert(ident.name.clone(), (declared, ident.span));
    }

    /// Gives each module the names that it imports.
    pub(super) fn link(&mut self, files: &[File], is_torn: bool) {
        self.refuse_classes_of_one_name();
        for (index, file) in files.iter().enumerate() {
            let module = self.module_of_file(index);
            let outer = self.enter(module);
            if let Some(own) = self.module_name(module) {
                for (name, declared, span) in self.modules.modules[module].own.clone() {
                    self.see(format!("{own}.{name}").into(), declared, span);
                }
            }
            for import in &file.imports {
                self.import(import, module, is_torn);
            }
            self.enter(outer);
        }
    }

    fn see(&mut self, name: Name, declared: Declared, span: Span) {
        self.declared.insert(name.clone(), (declared, span));
        self.modules.seen.entry(span).or_default().push((self.modules.current, name));
    }

    fn import(&mut self, import: &Import, module: usize, is_torn: bool) {
        let path = &import.module;
        if self.modules.modules[module].name.as_ref() == Some(&path.name) {
            let diagnostic = Diagnostic::new(Code::Import, path.span, "a module does not import itself", "itself");
            return self.report.push(diagnostic.help("remove it").edit(import.span, ""));
        }
        let Some(from) = self.modules.modules.iter().position(|other| other.name.as_ref() == Some(&path.name)) else {
            if is_torn && self.modules.modules.iter().any(|other| other.name.is_none()) {
                return; // The line that names it may be one that could not be read.
            }
            let message = format!("there is no module `{}`", path.name);
            let diagnostic = Diagnostic::new(Code::Import, path.span, message, "no such module");
            let names: Vec<Name> = self.modules.modules.iter().filter_map(|other| other.name.clone()).collect();
            let help = "give the file that begins with its `module` line to the check too, or put it beside this one";
            let hinted = diagnostic.clone().did_you_mean(&path.name, names.iter().map(|name| &**name));
            self.report.push(if hinted.help.is_some() { hinted } else { diagnostic.help(help) });
            // What it would bring is not called unknown.
            for name in import.names.iter().flatten() {
                self.forgive(&name.name);
            }
            return;
        };
        let own: Vec<(Name, Declared, Span)> = self.modules.modules[from].own.clone();
        let Some(names) = &import.names else {
            for (name, declared, span) in own {
                self.bring(&name, declared, span, &path.name, None);
            }
            return;
        };
        let end = names.last().map_or(import.span, |last| last.span);
        self.modules.modules[module].lists.push((path.name.clone(), end));
        for name in names {
            match own.iter().find(|(own, ..)| *own == name.name) {
                Some((_, declared, span)) => self.bring(&name.name, declared.clone(), *span, &path.name, Some(name)),
                None => {
                    self.forgive(&name.name);
                    let message = format!("the module `{}` does not declare `{}`", path.name, name.name);
                    let diagnostic = Diagnostic::new(Code::Import, name.span, message, "not declared there");
                    self.report.push(diagnostic.did_you_mean(&name.name, own.iter().map(|(name, ..)| &**name)));
                }
            }
        }
    }

    /// Says nothing of uses of a name whose import is reported.
    fn forgive(&mut self, name: &Name) {
        self.broken.insert(name.clone());
        self.unknown.extend([Scope::Types, Scope::Functions, Scope::Classes].map(|scope| (scope, name.clone())));
    }

    /// Makes a declaration of `module` known here, by its name and behind that of the module.
    fn bring(&mut self, name: &Name, declared: Declared, span: Span, module: &Name, listed: Option<&Ident>) {
        let qualified: Name = format!("{module}.{name}").into();
        if !self.declared.contains_key(&qualified) {
            self.see(qualified.clone(), declared.clone(), span);
        }
        let facts = &mut self.modules.modules[self.modules.current];
        if let Some(others) = facts.ambiguous.get_mut(name) {
            return others.push((module.clone(), span));
        }
        let Some((earlier, known)) = self.declared.get(name).map(|(earlier, known)| (earlier.noun(), *known)) else {
            return self.see(name.clone(), declared, span);
        };
        if known == span {
            return; // It is imported twice.
        }
        if let Some(listed) = listed {
            let message = format!("`{name}` is already {earlier} here");
            let diagnostic = Diagnostic::new(Code::Duplicate, listed.span, message, "imported under the same name");
            let help = format!("import all of `{module}`, and write `{module}.{name}`");
            self.used.insert(qualified);
            return self.report.push(diagnostic.and(known, "declared here").help(help));
        }
        let facts = &self.modules.modules;
        let owner = facts.iter().find(|facts| facts.own.iter().any(|(.., own)| *own == known));
        let owner = owner.and_then(|facts| facts.name.clone()).unwrap_or_else(|| "this file".into());
        let others = vec![(owner, known), (module.clone(), span)];
        self.modules.modules[self.modules.current].ambiguous.insert(name.clone(), others);
        self.declared.remove(name);
    }

    /// Objects are addressed by class and identity alone, and so are their records in the journal.
    fn refuse_classes_of_one_name(&mut self) {
        let mut known: HashMap<Name, Span> = HashMap::new();
        let mut twice = Vec::new();
        for (name, declared, span) in self.modules.modules.iter().flat_map(|module| &module.own) {
            if let Declared::Class(_) = declared
                && let Some(earlier) = known.insert(name.clone(), *span)
            {
                twice.push((name.clone(), *span, earlier));
            }
        }
        for (name, span, earlier) in twice {
            let message = format!("two modules declare a class `{name}`, and the address of an object names no module");
            let diagnostic = Diagnostic::new(Code::Duplicate, span, message, "again here");
            self.report.push(diagnostic.and(earlier, "declared here").help("choose another name for one of them"));
        }
    }

    /// Makes what a name of this module has become known to those that import it.
    pub(super) fn publish(&mut self, name: &Ident) {
        let Some(seen) = self.modules.seen.get(&name.span) else { return };
        let declared = self.declared.get(&name.name).cloned();
        let constant = self.constants.get(&name.name).cloned();
        let function = self.functions.get(&name.name).cloned();
        for (module, alias) in seen {
            let is_here = *module == self.modules.current;
            let view = &mut self.modules.views[*module];
            let (known, constants, functions) = match is_here {
                true => (&mut self.declared, &mut self.constants, &mut self.functions),
                false => (&mut view.declared, &mut view.constants, &mut view.functions),
            };
            known.extend(declared.clone().map(|declared| (alias.clone(), declared)));
            constants.extend(constant.clone().map(|constant| (alias.clone(), constant)));
            functions.extend(function.clone().map(|function| (alias.clone(), function)));
        }
    }

    /// The place where what a name means in `module` is declared.
    pub(super) fn declaration(&self, module: usize, name: &Name) -> Option<Span> {
        let declared = match module == self.modules.current {
            true => &self.declared,
            false => &self.modules.views[module].declared,
        };
        declared.get(name).map(|(_, span)| *span)
    }

    /// Says why a name that stands for nothing does so, if modules are the reason: `code` is what it is otherwise, `fits` whether
    /// a declaration is of the kind that is looked for.
    pub(super) fn explain(&mut self, code: Code, name: &Name, span: Span, fits: impl Fn(&Declared) -> bool) -> bool {
        let current = self.modules.current;
        if let Some(others) = self.modules.modules.get(current).and_then(|facts| facts.ambiguous.get(name)) {
            let modules: Vec<String> = others.iter().map(|(module, _)| format!("`{module}`")).collect();
            let message = format!("`{name}` is declared in {}", modules.join(" and in "));
            let mut diagnostic = Diagnostic::new(Code::Ambiguous, span, message, "which one?");
            for (_, declared) in others {
                diagnostic = diagnostic.and(*declared, "declared here");
            }
            let (last, _) = &others[others.len() - 1];
            let help = format!("write the module before it, as in `{last}.{name}`");
            for (module, _) in others.clone() {
                self.used.insert(format!("{module}.{name}").into());
            }
            self.report.push(diagnostic.help(help));
            return true;
        }
        let (module, name) = match name.rsplit_once('.') {
            Some((module, name)) => (Some(module), Name::from(name)),
            None => (None, name.clone()),
        };
        let has_it = |facts: &&Facts| {
            let is_meant = module.is_none_or(|module| facts.name.as_deref() == Some(module));
            is_meant && facts.own.iter().any(|(own, declared, _)| *own == name && fits(declared))
        };
        let others = self.modules.modules.iter().enumerate().filter(|(index, _)| *index != current);
        let mut found = others.map(|(_, facts)| facts).filter(has_it);
        let Some(facts) = found.next() else {
            return module.is_some_and(|module| self.does_not_declare(code, module, &name, span));
        };
        let Some(other) = facts.name.clone() else {
            let file = &self.report.sources()[facts.source].name;
            let message = format!("`{name}` is declared in {file}, which is no module that can be imported");
            let diagnostic = Diagnostic::new(code, span, message, "not known here");
            self.report.push(diagnostic.help("begin that file with `module` and a name, and import it here"));
            return true;
        };
        let message = format!("`{name}` is declared in the module `{other}`, and not imported here");
        let diagnostic = Diagnostic::new(code, span, message, "not imported");
        let here = &self.modules.modules[current];
        let listed = here.lists.iter().find(|(module, _)| *module == other).map(|(_, end)| *end);
        let diagnostic = diagnostic.help(format!("import it: `import {other}: {name}`"));
        let place = |at: usize, source: usize| Span { source, start: at, end: at };
        self.report.push(match (listed, here.imports_end) {
            (Some(end), _) => diagnostic.edit(place(end.end, end.source), format!(", {name}")),
            (None, Some(end)) => diagnostic.edit(place(end.end, end.source), format!("\nimport {other}: {name}")),
            (None, None) => diagnostic.edit(place(0, here.source), format!("import {other}: {name}\n")),
        });
        true
    }

    /// Says that a module, if there is one of that name, does not declare something.
    fn does_not_declare(&mut self, code: Code, module: &str, name: &Name, span: Span) -> bool {
        let Some(facts) = self.modules.modules.iter().find(|facts| facts.name.as_deref() == Some(module)) else {
            return false;
        };
        let message = format!("the module `{module}` does not declare `{name}`");
        let place = Span { start: span.end - name.len().min(span.end - span.start), ..span };
        let diagnostic = Diagnostic::new(code, place, message, "not declared there");
        let diagnostic = diagnostic.did_you_mean(name, facts.own.iter().map(|(name, ..)| &**name));
        self.report.push(diagnostic);
        true
    }

    pub(super) fn is_module(&self, name: &str) -> bool {
        self.modules.modules.iter().any(|facts| facts.name.as_deref() == Some(name))
    }

    /// A module of which the name is the first word.
    pub(super) fn module_that_begins_with(&self, name: &Name) -> Option<Name> {
        let names = self.modules.modules.iter().filter_map(|facts| facts.name.as_ref());
        let mut names = names.filter(|module| module.split('.').next() == Some(&**name));
        names.next().cloned()
    }

    /// The places of all declarations that something refers to.
    pub(super) fn used_declarations(&mut self) -> HashSet<Span> {
        let outer = self.enter(0);
        let mut used = HashSet::new();
        for module in 0..self.modules.views.len() {
            self.enter(module);
            used.extend(self.used.iter().filter_map(|name| self.declared.get(name)).map(|(_, span)| *span));
        }
        self.enter(outer);
        used
    }

    /// What each module declares for itself alone, because it has no name.
    pub(super) fn private_declarations(&self) -> Vec<(Name, Declared, Span)> {
        let nameless = self.modules.modules.iter().filter(|facts| facts.name.is_none());
        nameless.flat_map(|facts| facts.own.iter().cloned()).collect()
    }

    /// Warns of imports that nothing uses.
    pub(super) fn unused_imports(&mut self, files: &[File]) {
        for (index, file) in files.iter().enumerate() {
            let module = self.module_of_file(index);
            let outer = self.enter(module);
            for import in &file.imports {
                self.unused_import(import);
            }
            self.enter(outer);
        }
    }

    fn unused_import(&mut self, import: &Import) {
        let module = &import.module.name;
        let Some(from) = self.modules.modules.iter().position(|facts| facts.name.as_ref() == Some(module)) else {
            return;
        };
        if from == self.modules.current {
            return; // That is reported.
        }
        let own = self.modules.modules[from].own.clone();
        let is_used = |checker: &Self, name: &Name| {
            let qualified: Name = format!("{module}.{name}").into();
            checker.used.contains(name) || checker.used.contains(&qualified)
        };
        let Some(names) = &import.names else {
            if !own.iter().any(|(name, ..)| is_used(self, name)) {
                let message = format!("nothing of `{module}` is used");
                let diagnostic = Diagnostic::new(Code::Unused, import.span, message, "unused");
                self.report.push(diagnostic.help("remove it").edit(import.span, ""));
            }
            return;
        };
        let is_known = |name: &&Ident| own.iter().any(|(own, ..)| *own == name.name);
        let unused: Vec<&Ident> = names.iter().filter(is_known).filter(|name| !is_used(self, &name.name)).collect();
        let is_all = unused.len() == names.len();
        for name in unused {
            let message = format!("`{}` is imported and not used", name.name);
            let diagnostic = Diagnostic::new(Code::Unused, name.span, message, "unused").help("remove it");
            let is_only = is_all && names.len() == 1;
            self.report.push(if is_only { diagnostic.edit(import.span, "") } else { diagnostic });
        }
    }

    /// Refuses a name with a module before it that could be read as a member of something.
    pub(super) fn refuse_two_readings<'a>(
        &mut self,
        name: &Name,
        span: Span,
        mut others: impl Iterator<Item = &'a Name>,
    ) -> bool {
        let Some((first, _)) = name.split_once('.') else { return false };
        if !others.any(|other| **other == *first) {
            return false;
        }
        self.used.insert(name.clone());
        let message = format!("`{name}` is a name of a module, and `{first}` is something else here");
        let diagnostic = Diagnostic::new(Code::Ambiguous, span, message, "which one?");
        self.report.push(diagnostic.help(format!("choose another name for what is called `{first}` here")));
        true
    }
}

/// The name of a declaration without the module before it.
pub(super) fn own_name(name: &Name) -> Name {
    match name.rsplit_once('.') {
        Some((_, own)) => Arc::from(own),
        None => name.clone(),
    }
}
