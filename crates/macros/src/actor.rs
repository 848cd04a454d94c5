//! From an impl block to an actor: checks, then the block as it was, then what is generated.
use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Error, Ident, ImplItem, Item, ItemImpl, LitStr, Path, PathArguments, Result, Token, Type, Visibility, parse_quote,
};

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
    /// The path to what generated code is made of, in the user's crate.
    pub(crate) runtime: Path,
}

/// The block as it was, and the generated items. With errors, what is sound is still generated, so that they are the
/// only ones.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    match impl_block(item.clone()).and_then(|block| ActorImpl::new(options, block)) {
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

fn impl_block(item: TokenStream) -> Result<ItemImpl> {
    match syn::parse2(item)? {
        Item::Impl(block) => Ok(block),
        _ => Err(Error::new(
            Span::call_site(),
            "#[actor] goes on the impl block of a type: the methods of the block are the messages",
        )),
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
        let (Options { visibility, speculative, path }, mut errors) = match syn::parse2(options) {
            Ok(options) => (options, None),
            Err(error) => (Options::default(), Some(error)),
        };
        let runtime =
            path.map_or_else(|| path_to("enact-actors", "actors").map_err(|error| with_advice(&error)), Ok)?;
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
        let visibility = visibility.unwrap_or_else(|| widest(handlers.iter().map(|handler| &handler.visibility)));
        Ok((Self { name, visibility, speculative, handlers, runtime: parse_quote!(#runtime::message), block }, errors))
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

fn with_advice(error: &Error) -> Error {
    let advice = "if another crate passes it on, say where: `#[actor(crate = my_facade::enact)]`";
    Error::new(error.span(), format!("{error}: {advice}"))
}

/// What stands in the attribute.
#[derive(Default)]
struct Options {
    visibility: Option<Visibility>,
    speculative: Option<Span>,
    /// The path to the runtime or the facade.
    path: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            options.add(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    fn add(&mut self, input: ParseStream<'_>) -> Result<()> {
        let span = input.span();
        let is_new = if input.peek(Token![pub]) {
            self.visibility.replace(input.parse()?).is_none()
        } else if input.peek(Token![crate]) {
            input.parse::<Token![crate]>()?;
            self.path.replace(path_behind_equals(input)?).is_none()
        } else if input.parse::<Ident>().is_ok_and(|option| option == "speculative") {
            self.speculative.replace(span).is_none()
        } else {
            return Err(Error::new(span, "an actor has a visibility, is `speculative`, and names a `crate = path`"));
        };
        if is_new { Ok(()) } else { Err(Error::new(span, "this option is there already")) }
    }
}

fn path_behind_equals(input: ParseStream<'_>) -> Result<Path> {
    input.parse::<Token![=]>()?;
    if input.peek(LitStr) {
        return Err(input.error("a path stands without quotes, as in `crate = my_facade::enact`"));
    }
    Path::parse_mod_style(input)
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

/// The path to one of our crates, which the user depends on by itself or reaches as `module` of the facade.
pub(crate) fn path_to(package: &str, module: &str) -> Result<Path> {
    let named = |found: FoundCrate, package: &str| match found {
        FoundCrate::Itself => format_ident!("{}", package.replace('-', "_")),
        FoundCrate::Name(name) => format_ident!("{name}"),
    };
    let found = crate_name(package);
    if found.is_err()
        && let Ok(facade) = crate_name("enact")
    {
        let (name, module) = (named(facade, "enact"), format_ident!("{module}"));
        return Ok(parse_quote!(::#name::#module));
    }
    if let Err(proc_macro_crate::Error::CrateNotFound { .. }) = found {
        let message = format!("this crate depends neither on `enact` nor on `{package}`");
        return Err(Error::new(Span::call_site(), message));
    }
    // Without a manifest to look into, the usual name is as good as any.
    let name = named(found.unwrap_or(FoundCrate::Itself), package);
    Ok(parse_quote!(::#name))
}

/// Whether `ty` is a path that ends in `name`.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}
