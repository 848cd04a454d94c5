//! One method of the impl block, understood as a message.
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, GenericArgument, GenericParam, Ident, ImplItemFn, Pat, PatType, PathArguments, Receiver,
    ReceiverKind, Result, ReturnType, Safety, Type, TypePath, Visibility, parse_quote,
};

use crate::actor::is_named;
use crate::choosing::{self, Condition};

/// A method that is a message.
pub(crate) struct Handler {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    /// What carries over to the handle's method.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) kind: Kind,
    /// Whether `cx: &Cx<Self>` follows the receiver.
    pub(crate) takes_cx: bool,
    pub(crate) arguments: Vec<Argument>,
    /// What the caller gets: the `T` of `Forward<T>`.
    pub(crate) value: Type,
    pub(crate) forwards: bool,
    pub(crate) priority: Option<Condition>,
    pub(crate) guard: Option<Condition>,
}

pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Held,
    Cooperative,
}

/// Methods of every handle that choose the view: a message of that name could not be sent.
const VIEWS: [&str; 5] = ["tell", "call", "forward", "within", "tell_within"];

impl Handler {
    /// The message that `function` is; `None` if it is a plain associated function.
    pub(crate) fn of(function: &ImplItemFn, actor: &Type) -> Result<Option<Self>> {
        let signature = &function.sig;
        let mut inputs = signature.inputs.iter().peekable();
        let receiver = inputs.next_if(|input| matches!(input, FnArg::Receiver(_)));
        let kind = match receiver {
            Some(FnArg::Receiver(receiver)) => {
                check_receiver(receiver)?;
                if signature.asyncness.is_some() { Kind::Held } else { Kind::Plain }
            }
            _ => match inputs.next_if(|input| is_cx(input, false)) {
                Some(cx) if signature.asyncness.is_none() => {
                    return Err(Error::new(
                        cx.span(),
                        "a handler that owns its `Cx` is `async fn`; to run to completion, take `&mut self` and `cx: &Cx<Self>`",
                    ));
                }
                Some(_) => Kind::Cooperative,
                None => match inputs.peek() {
                    Some(cx) if is_cx(cx, true) => {
                        return Err(Error::new(
                            cx.span(),
                            "take `cx: Cx<Self>` by value for a cooperative handler, or `&mut self` before `cx: &Cx<Self>`",
                        ));
                    }
                    _ => return choosing::refuse(function).map(|()| None),
                },
            },
        };
        check_signature(function)?;
        let takes_cx = kind != Kind::Cooperative && inputs.next_if(|input| is_cx(input, true)).is_some();
        let arguments: Vec<_> = inputs.map(|input| Argument::of(input, actor)).collect::<Result<_>>()?;
        let (value, forwards) = value_of(&signature.output, actor)?;
        Ok(Some(Self {
            name: signature.ident.clone(),
            visibility: function.vis.clone(),
            attributes: function.attrs.iter().filter(|attribute| carries_over(attribute)).cloned().collect(),
            kind,
            takes_cx,
            priority: choosing::priority(function, &arguments)?,
            guard: choosing::guard(function, &arguments)?,
            arguments,
            value,
            forwards,
        }))
    }
}

fn carries_over(attribute: &Attribute) -> bool {
    ["doc", "cfg", "deprecated", "allow"].iter().any(|name| attribute.path().is_ident(name))
}

fn check_receiver(receiver: &Receiver) -> Result<()> {
    if matches!(receiver.kind, ReceiverKind::Reference(..)) {
        return Ok(());
    }
    Err(Error::new(
        receiver.span(),
        "a handler borrows its actor: take `&mut self` or `&self`, and end the actor with `cx.stop()`",
    ))
}

fn check_signature(function: &ImplItemFn) -> Result<()> {
    let signature = &function.sig;
    if VIEWS.iter().any(|view| signature.ident == view) {
        let message = format!("`{}` is a view of every handle; give the message another name", signature.ident);
        return Err(Error::new(signature.ident.span(), message));
    }
    if let Some(parameter) = signature.generics.params.first() {
        let message = match parameter {
            GenericParam::Lifetime(_) => "a handler has no lifetimes: messages own what they carry",
            _ => "a handler has no generic parameters: put them on the actor's type",
        };
        return Err(Error::new(parameter.span(), message));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(Error::new(clause.span(), "a handler has no where clause: put it on the impl block"));
    }
    let plain = "a handler is a plain or `async` function";
    if let Some(constness) = &signature.constness {
        return Err(Error::new(constness.span(), plain));
    }
    if !matches!(signature.safety, Safety::Default) {
        return Err(Error::new(signature.safety.span(), plain));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new(abi.span(), plain));
    }
    Ok(())
}

fn is_cx(input: &FnArg, by_reference: bool) -> bool {
    let FnArg::Typed(PatType { ty, .. }) = input else { return false };
    match &**ty {
        Type::Reference(reference) => by_reference && is_named(&reference.elem, "Cx"),
        ty => !by_reference && is_named(ty, "Cx"),
    }
}

impl Argument {
    fn of(input: &FnArg, actor: &Type) -> Result<Self> {
        let FnArg::Typed(argument) = input else {
            return Err(Error::new(input.span(), "the receiver comes first"));
        };
        if is_cx(input, true) || is_cx(input, false) {
            return Err(Error::new(
                argument.span(),
                "`cx: &Cx<Self>` comes right after the receiver, `cx: Cx<Self>` in its place",
            ));
        }
        if let Some(attribute) = argument.attrs.first() {
            return Err(Error::new(attribute.span(), "an argument of a handler has no attributes"));
        }
        let Pat::Ident(pattern) = &*argument.pat else {
            return Err(Error::new(
                argument.pat.span(),
                "an argument of a handler is a name; take it apart in the body",
            ));
        };
        if pattern.by_ref.is_some() || pattern.subpat.is_some() {
            return Err(Error::new(pattern.span(), "an argument of a handler is a name; take it apart in the body"));
        }
        check_owned(&argument.ty, "messages own what they carry: take `String`, `Vec<T>`, `Arc<T>` or the like")?;
        Ok(Self { name: pattern.ident.clone(), ty: without_self(&argument.ty, actor) })
    }
}

fn value_of(output: &ReturnType, actor: &Type) -> Result<(Type, bool)> {
    let ReturnType::Type(_, ty) = output else { return Ok((parse_quote!(()), false)) };
    check_owned(ty, "an answer owns what it carries: a borrow of the state cannot leave the actor")?;
    Ok(match forwarded(ty) {
        Some(value) => (without_self(value, actor), true),
        None => (without_self(ty, actor), false),
    })
}

/// The `T` of `Forward<T>`.
fn forwarded(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Forward")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(value)) => Some(value),
        _ => None,
    }
}

/// Refuses types that only an ordinary function could have.
fn check_owned(ty: &Type, advice: &'static str) -> Result<()> {
    let mut search = Borrowed { advice, found: None };
    search.visit_type(ty);
    search.found.map_or(Ok(()), Err)
}

struct Borrowed {
    advice: &'static str,
    found: Option<Error>,
}

impl Visit<'_> for Borrowed {
    fn visit_type(&mut self, ty: &Type) {
        match ty {
            Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(|name| name.ident != "static") => {
                self.found.get_or_insert_with(|| Error::new(ty.span(), self.advice));
            }
            Type::ImplTrait(_) => {
                let message = "a message has one concrete type: name it, or box it as `Box<dyn Trait + Send>`";
                self.found.get_or_insert_with(|| Error::new(ty.span(), message));
            }
            // What a function is called with is not carried by the message.
            Type::FnPtr(_) => {}
            _ => visit::visit_type(self, ty),
        }
    }

    fn visit_parenthesized_generic_arguments(&mut self, _arguments: &syn::ParenthesizedGenericArguments) {}
}

/// `ty` as it is written outside the impl block, where `Self` would be another type.
fn without_self(ty: &Type, actor: &Type) -> Type {
    let mut ty = ty.clone();
    NameSelf { actor }.visit_type_mut(&mut ty);
    ty
}

struct NameSelf<'a> {
    actor: &'a Type,
}

impl VisitMut for NameSelf<'_> {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::Path(path) = ty
            && path.qself.is_none()
            && path.path.segments.first().is_some_and(|first| first.ident == "Self")
        {
            *ty = self.named(path);
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

impl NameSelf<'_> {
    /// `Self` as the actor's type, `Self::Item` as `<Actor>::Item`.
    fn named(&self, path: &TypePath) -> Type {
        let actor = self.actor;
        if path.path.segments.len() == 1 {
            return actor.clone();
        }
        let rest = path.path.segments.iter().skip(1);
        parse_quote!(<#actor>::#(#rest)::*)
    }
}
