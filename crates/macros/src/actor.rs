//! From an impl block to an actor: checks, then the block as it was, then what is generated.
use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Ident, ImplItem, ItemImpl, Path, PathArguments, Result, Token, Type, Visibility, parse_quote};

use crate::handler::Handler;
use crate::{choosing, handle};

/// An impl block whose methods are messages.
pub(crate) struct ActorImpl {
    pub(crate) block: ItemImpl,
    /// The type's name, from which those of handle and views are made.
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    /// Where it says that tentative messages are taken up at once.
    pub(crate) speculative: Option<Span>,
    pub(crate) handlers: Vec<Handler>,
    /// The path to the runtime in the user's crate.
    pub(crate) runtime: Path,
}

/// The block as it was, and the generated items. With errors, what is sound is still generated, so that they are the
/// only ones.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let parsed = syn::parse2::<ItemImpl>(item.clone());
    match parsed.and_then(|block| ActorImpl::new(options, block)) {
        Ok((actor, errors)) => {
            let block = &actor.block;
            let generated = handle::generate(&actor);
            let errors = errors.map(Error::into_compile_error);
            quote!(#block #generated #errors)
        }
        Err(error) => {
            let errors = error.into_compile_error();
            quote!(#item #errors)
        }
    }
}

impl ActorImpl {
    /// The actor of those handlers that are sound, and what is wrong with the others.
    fn new(options: TokenStream, mut block: ItemImpl) -> Result<(Self, Option<Error>)> {
        if let Some((path, _)) = &block.trait_ {
            return Err(Error::new(
                path.span(),
                "#[actor] goes on an inherent impl block: a trait's methods are no messages",
            ));
        }
        let name = type_name(&block.self_ty)?;
        // A handler takes by value what its message carries, `async` or with `self` to choose its kind of turn.
        block
            .attrs
            .push(parse_quote!(#[allow(clippy::needless_pass_by_value, clippy::unused_self, clippy::unused_async)]));
        let mut errors: Option<Error> = None;
        let mut handlers = Vec::new();
        for item in &mut block.items {
            let ImplItem::Fn(function) = item else { continue };
            let handler = Handler::of(function, &block.self_ty);
            choosing::strip(function, handler.as_ref().ok().and_then(Option::as_ref));
            match handler {
                Ok(handler) => handlers.extend(handler),
                Err(error) => match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                },
            }
        }
        let Options { visibility, speculative } = syn::parse2(options)?;
        let visibility = visibility.unwrap_or_else(|| widest(handlers.iter().map(|handler| &handler.visibility)));
        Ok((Self { name, visibility, speculative, handlers, runtime: runtime_path(), block }, errors))
    }

    /// The path to the runtime, written as if at `span`.
    pub(crate) fn runtime_at(&self, span: Span) -> TokenStream {
        let at_span = |mut token: TokenTree| {
            token.set_span(span);
            token
        };
        self.runtime.to_token_stream().into_iter().map(at_span).collect()
    }

    pub(crate) fn handle_name(&self) -> Ident {
        format_ident!("{}Ref", self.name)
    }
}

/// What stands in the attribute: `pub`, `speculative`, or both in this order.
struct Options {
    visibility: Option<Visibility>,
    speculative: Option<Span>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let visibility = (input.peek(Token![pub])).then(|| input.parse()).transpose()?;
        if visibility.is_some() && !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        let speculative = if input.is_empty() {
            None
        } else {
            let option: Ident = input.parse()?;
            if option != "speculative" {
                return Err(Error::new(option.span(), "an actor is `speculative` or not; its visibility comes first"));
            }
            Some(option.span())
        };
        Ok(Self { visibility, speculative })
    }
}

fn type_name(ty: &Type) -> Result<Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => match path.path.segments.last() {
            Some(last) if !matches!(last.arguments, PathArguments::Parenthesized(_)) => Ok(last.ident.clone()),
            _ => Err(Error::new(ty.span(), "an actor is a named type")),
        },
        _ => Err(Error::new(ty.span(), "an actor is a named type")),
    }
}

fn widest<'a>(visibilities: impl Iterator<Item = &'a Visibility>) -> Visibility {
    let rank = |visibility: &Visibility| match visibility {
        Visibility::Public(_) => 3,
        Visibility::Restricted(restricted) if restricted.path.is_ident("crate") => 2,
        Visibility::Restricted(restricted) if !restricted.path.is_ident("self") => 1,
        _ => 0,
    };
    visibilities.max_by_key(|visibility| rank(visibility)).cloned().unwrap_or(Visibility::Inherited)
}

/// The runtime, which the user reaches through the facade or by itself.
fn runtime_path() -> Path {
    let named = |found: FoundCrate, own: &str| match found {
        FoundCrate::Itself => Ident::new(own, Span::call_site()),
        FoundCrate::Name(name) => Ident::new(&name, Span::call_site()),
    };
    if let Ok(found) = crate_name("enact-actors") {
        let name = named(found, "enact_actors");
        return parse_quote!(::#name);
    }
    if let Ok(found) = crate_name("enact") {
        let name = named(found, "enact");
        return parse_quote!(::#name::actors);
    }
    parse_quote!(::enact_actors)
}

/// Whether `ty` is a path that ends in `name`.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}
