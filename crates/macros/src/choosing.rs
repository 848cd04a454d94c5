//! What a handler says about when its turn comes: `#[priority(..)]` and `#[when(..)]`.
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Error, Expr, Ident, ImplItemFn, Result, parse_quote};

use crate::handler::{Argument, Handler};

/// An expression in an attribute of a handler.
pub(crate) struct Condition {
    pub(crate) expression: Expr,
    /// Which arguments it reads, by their number.
    pub(crate) reads: Vec<usize>,
    /// Where it names the state, if it does.
    this: Option<Span>,
}

const PRIORITY: &str = "priority";
const GUARD: &str = "when";

/// Takes what is for us off the function, so that the compiler does not look for such attributes; what they read of its
/// arguments is used.
pub(crate) fn strip(function: &mut ImplItemFn, handler: Option<&Handler>) {
    function.attrs.retain(|attribute| !is_ours(attribute));
    let Some(handler) = handler else { return };
    for &number in handler.priority.iter().chain(&handler.guard).flat_map(|condition| &condition.reads) {
        let name = &handler.arguments[number].name;
        function.block.stmts.insert(0, parse_quote!(let _ = &#name;));
    }
}

fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident(PRIORITY) || attribute.path().is_ident(GUARD)
}

/// Refuses the attributes on what is no message.
pub(crate) fn refuse(function: &ImplItemFn) -> Result<()> {
    match function.attrs.iter().find(|attribute| is_ours(attribute)) {
        Some(attribute) => {
            let message =
                "only a handler has a priority or a guard: a method with `self`, or with `cx: Cx<Self>` first";
            Err(Error::new_spanned(attribute, message))
        }
        None => Ok(()),
    }
}

/// The priority, which the sender works out.
pub(crate) fn priority(function: &ImplItemFn, arguments: &[Argument]) -> Result<Option<Condition>> {
    let advice = "a message has one priority";
    let Some(priority) = Condition::of(function, PRIORITY, advice, arguments)? else { return Ok(None) };
    match priority.this {
        Some(this) => {
            Err(Error::new(this, "the sender works the priority out, and does not see the state: use the arguments"))
        }
        None => Ok(Some(priority)),
    }
}

/// The guard, which the actor asks.
pub(crate) fn guard(function: &ImplItemFn, arguments: &[Argument]) -> Result<Option<Condition>> {
    let advice = "a handler has one guard: join the conditions by `&&`";
    let Some(guard) = Condition::of(function, GUARD, advice, arguments)? else { return Ok(None) };
    if guard.this.is_none() {
        let message = "a guard that does not read `self` says the same for ever: it is a condition on the state";
        return Err(Error::new_spanned(&guard.expression, message));
    }
    Ok(Some(guard))
}

impl Condition {
    fn of(function: &ImplItemFn, name: &str, only_one: &str, arguments: &[Argument]) -> Result<Option<Self>> {
        let mut written = function.attrs.iter().filter(|attribute| attribute.path().is_ident(name));
        let Some(attribute) = written.next() else { return Ok(None) };
        if let Some(second) = written.next() {
            return Err(Error::new_spanned(second, only_one));
        }
        let expression: Expr = attribute.parse_args()?;
        let tokens = expression.to_token_stream();
        let is_read = |&(_, argument): &(usize, &Argument)| mention(tokens.clone(), &argument.name).is_some();
        let reads = arguments.iter().enumerate().filter(is_read).map(|(number, _)| number).collect();
        let this = mention(tokens.clone(), &Ident::new("self", Span::call_site()));
        Ok(Some(Self { expression, reads, this }))
    }

    /// `self` as the expression has it.
    pub(crate) fn receiver(&self) -> Option<Ident> {
        self.this.map(|span| Ident::new("self", span))
    }
}

/// Where `tokens` name `name` first, but for fields and methods. A literal may, too, as the arguments of a formatted
/// text.
fn mention(tokens: TokenStream, name: &Ident) -> Option<Span> {
    let mut dots = 0;
    tokens.into_iter().find_map(|token| {
        let is_member = dots == 1;
        dots = if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.') { dots + 1 } else { 0 };
        match token {
            TokenTree::Group(group) => mention(group.stream(), name),
            TokenTree::Ident(ident) => (ident == *name && !is_member).then(|| ident.span()),
            TokenTree::Literal(literal) => literal.to_string().contains(&name.to_string()).then(|| literal.span()),
            TokenTree::Punct(_) => None,
        }
    })
}
