//! The generated code: the handle, its views, and one message constructor per handler that they share.
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Generics, Ident, Index, parse_quote};

use crate::actor::ActorImpl;
use crate::choosing::Condition;
use crate::handler::{Argument, Handler, Kind};

/// One way to send: what it is called, what its methods return, and which method of `Handle` they use.
struct View {
    /// What the type's name ends in.
    suffix: &'static str,
    /// The method of the handle that gives it.
    method: &'static str,
    /// What that method asks for.
    asks_for: Asks,
    about: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nothing,
    /// The context of a turn.
    Cx,
    /// A transaction, for whose part that runs now the view sends.
    Tx,
}

const VIEWS: [View; 5] = [
    View {
        suffix: "Tell",
        method: "tell",
        asks_for: Asks::Nothing,
        about: "Sends without an answer: no promise is made.",
    },
    View {
        suffix: "Call",
        method: "call",
        asks_for: Asks::Cx,
        about: "Has a message taken up before the call returns: on this thread if the actor is idle, \
                else by sending it and waiting.",
    },
    View {
        suffix: "Forward",
        method: "forward",
        asks_for: Asks::Cx,
        about: "Has a message answered in the place of the turn that returns the forward.",
    },
    View {
        suffix: "Within",
        method: "within",
        asks_for: Asks::Tx,
        about: "Sends as a part of a transaction: at once, and never if that does not commit. The answer comes after the \
                commit.",
    },
    View {
        suffix: "TellWithin",
        method: "tell_within",
        asks_for: Asks::Tx,
        about: "Sends as a part of a transaction, without an answer.",
    },
];

pub(crate) fn generate(actor: &ActorImpl) -> TokenStream {
    let mark = mark_of_the_only_block(actor);
    let handle = handle_type(actor);
    let views = VIEWS.iter().map(|view| view_type(actor, view));
    let constructors = actor.handlers.iter().map(|handler| constructor(actor, handler));
    let conditions = conditions(actor);
    let asks = asks(actor);
    let sends = VIEWS.iter().map(|view| sends(actor, view));
    quote! {
        #mark
        #handle
        #(#views)*
        const _: () = {
            #(#constructors)*
            #conditions
            #asks
            #(#sends)*
        };
    }
}

/// Generated code is not for the user's lints to judge.
fn lenient() -> TokenStream {
    quote!(#[allow(dead_code, deprecated, missing_docs, unused_qualifications, clippy::all, clippy::pedantic)])
}

/// An item whose name is the advice for a type with a second block: the compiler's first error says that it is there already.
fn mark_of_the_only_block(actor: &ActorImpl) -> TokenStream {
    let name = format_ident!("all_messages_of_{}_belong_in_one_actor_block", actor.name);
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, non_camel_case_types)]
        enum #name {}
    }
}

fn handle_type(actor: &ActorImpl) -> TokenStream {
    let ActorImpl { block, visibility, runtime, .. } = actor;
    let lenient = lenient();
    let name = actor.handle_name();
    let ty = &block.self_ty;
    let (generics, arguments, bounds) = block.generics.split_for_impl();
    let doc = format!(
        "Handle of an actor [`{}`]: its messages as methods, and what every [`Handle`]({}::Handle) can do.",
        actor.name,
        path_text(actor)
    );
    let shown = name.to_string();
    let copy = actor.speculative.map(|span| {
        let here = actor.runtime_at(span);
        let copy = quote_spanned!(span=> #here::copy::<#ty>);
        quote!(const COPY: ::core::option::Option<fn(&Self) -> Self> = ::core::option::Option::Some(#copy);)
    });
    let has_priorities = actor.handlers.iter().any(|handler| handler.priority.is_some());
    let priorities = has_priorities.then(|| {
        quote!(
            const HAS_PRIORITIES: bool = true;
        )
    });
    quote! {
        #[doc = #doc]
        #lenient
        #visibility struct #name #generics #bounds {
            handle: #runtime::Handle<#ty>,
        }

        #[automatically_derived]
        impl #generics #runtime::Actor for #ty #bounds {
            type Ref = #name #arguments;
            #copy
            #priorities
        }

        #[automatically_derived]
        impl #generics ::core::convert::From<#runtime::Handle<#ty>> for #name #arguments #bounds {
            fn from(handle: #runtime::Handle<#ty>) -> Self {
                Self { handle }
            }
        }

        #[automatically_derived]
        impl #generics ::core::ops::Deref for #name #arguments #bounds {
            type Target = #runtime::Handle<#ty>;

            fn deref(&self) -> &Self::Target {
                &self.handle
            }
        }

        #[automatically_derived]
        impl #generics ::core::clone::Clone for #name #arguments #bounds {
            fn clone(&self) -> Self {
                Self { handle: ::core::clone::Clone::clone(&self.handle) }
            }
        }

        #[automatically_derived]
        impl #generics ::core::cmp::PartialEq for #name #arguments #bounds {
            fn eq(&self, other: &Self) -> bool {
                self.handle == other.handle
            }
        }

        #[automatically_derived]
        impl #generics ::core::cmp::Eq for #name #arguments #bounds {}

        #[automatically_derived]
        impl #generics ::core::hash::Hash for #name #arguments #bounds {
            fn hash<__Hasher: ::core::hash::Hasher>(&self, state: &mut __Hasher) {
                ::core::hash::Hash::hash(&self.handle, state);
            }
        }

        #[automatically_derived]
        impl #generics ::core::fmt::Debug for #name #arguments #bounds {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::write!(f, "{}({})", #shown, self.handle.identity())
            }
        }
    }
}

/// The runtime's path for a documentation link.
fn path_text(actor: &ActorImpl) -> String {
    let names: Vec<String> = actor.runtime.segments.iter().map(|segment| segment.ident.to_string()).collect();
    names.join("::")
}

fn view_name(actor: &ActorImpl, view: &View) -> Ident {
    format_ident!("{}{}", actor.name, view.suffix)
}

/// The generics of a view: those of the actor, and how long it borrows the handle.
fn view_generics(actor: &ActorImpl) -> Generics {
    let mut generics = actor.block.generics.clone();
    generics.params.insert(0, parse_quote!('__handle));
    generics
}

fn view_type(actor: &ActorImpl, view: &View) -> TokenStream {
    let ActorImpl { block, visibility, runtime, .. } = actor;
    let lenient = lenient();
    let name = view_name(actor, view);
    let ty = &block.self_ty;
    let generics = view_generics(actor);
    let (generics, _, bounds) = generics.split_for_impl();
    let within = (view.asks_for == Asks::Tx).then(|| quote!(within: #runtime::Within<'__handle>,));
    let doc = format!("View of a [`{}`]: {}{}", actor.handle_name(), view.about[..1].to_lowercase(), &view.about[1..]);
    quote! {
        #[doc = #doc]
        #lenient
        #[derive(Debug)]
        #[must_use = "a view sends nothing by itself"]
        #visibility struct #name #generics #bounds {
            handle: &'__handle #runtime::Handle<#ty>,
            #within
        }
    }
}

/// The handle's own methods: those that give the views, and one per message that asks.
fn asks(actor: &ActorImpl) -> TokenStream {
    let ActorImpl { block, visibility, runtime, .. } = actor;
    let lenient = lenient();
    let name = actor.handle_name();
    let (generics, arguments, bounds) = block.generics.split_for_impl();
    let parameters = block.generics.params.iter().map(parameter_name).collect::<Vec<_>>();
    let views = VIEWS.iter().map(|view| {
        let View { method, asks_for, about, .. } = view;
        let method = Ident::new(method, Span::call_site());
        let view = view_name(actor, view);
        let asked = match asks_for {
            Asks::Nothing => None,
            Asks::Cx => Some(quote!(, _cx: &'__handle #runtime::Cx<impl #runtime::Actor>)),
            Asks::Tx => Some(quote!(, tx: &'__handle mut #runtime::Tx<'_, '_>)),
        };
        let within = (*asks_for == Asks::Tx).then(|| quote!(, within: #runtime::Within::new(tx)));
        quote! {
            #[doc = #about]
            #visibility fn #method<'__handle>(&'__handle self #asked) -> #view<'__handle #(, #parameters)*> {
                #view { handle: &self.handle #within }
            }
        }
    });
    let messages = actor.handlers.iter().map(|handler| {
        let Handler { attributes, visibility, name, value, .. } = handler;
        let (declared, message) = send_parts(actor, handler);
        let there = actor.runtime_at(value.span());
        let returned = quote_spanned!(value.span()=> #there::Promise<#value>);
        quote! {
            #(#attributes)*
            #visibility fn #name(&self #(, #declared)*) -> #returned {
                self.handle.ask(#message)
            }
        }
    });
    quote! {
        #lenient
        impl #generics #name #arguments #bounds {
            #(#views)*
            #(#messages)*
        }
    }
}

/// The methods of a view.
fn sends(actor: &ActorImpl, view: &View) -> TokenStream {
    let runtime = &actor.runtime;
    let lenient = lenient();
    let name = view_name(actor, view);
    let generics = view_generics(actor);
    let (generics, arguments, bounds) = generics.split_for_impl();
    let (method, within) = match view.method {
        "within" => ("ask_within", Some(quote!(&self.within,))),
        "tell_within" => ("tell_within", Some(quote!(&self.within,))),
        method => (method, None),
    };
    let method = Ident::new(method, Span::call_site());
    let messages = actor.handlers.iter().map(|handler| {
        let Handler { attributes, visibility, name, value, .. } = handler;
        let (declared, message) = send_parts(actor, handler);
        let there = actor.runtime_at(value.span());
        let returned = match view.method {
            "tell" | "tell_within" => quote!(#runtime::Sent),
            "within" => quote_spanned!(value.span()=> #there::Ask<#value>),
            "call" => quote!(::core::result::Result<#value, #runtime::ActorError>),
            _ => quote_spanned!(value.span()=> #there::Forward<#value>),
        };
        quote! {
            #(#attributes)*
            #visibility fn #name(&self #(, #declared)*) -> #returned {
                self.handle.#method(#within #message)
            }
        }
    });
    quote! {
        #lenient
        impl #generics #name #arguments #bounds {
            #(#messages)*
        }
    }
}

fn parameter_name(parameter: &syn::GenericParam) -> TokenStream {
    match parameter {
        syn::GenericParam::Lifetime(parameter) => {
            let lifetime = &parameter.lifetime;
            quote!(#lifetime)
        }
        syn::GenericParam::Type(parameter) => {
            let name = &parameter.ident;
            quote!(#name)
        }
        syn::GenericParam::Const(parameter) => {
            let name = &parameter.ident;
            quote!(#name)
        }
    }
}

/// The arguments as they are declared, and the message made of them.
fn send_parts(actor: &ActorImpl, handler: &Handler) -> (Vec<TokenStream>, TokenStream) {
    let (_, arguments, _) = actor.block.generics.split_for_impl();
    let turbofish = arguments.as_turbofish();
    let constructor = constructor_name(handler);
    let declared = declared(handler);
    let names = handler.arguments.iter().map(|argument| &argument.name);
    (declared, quote!(#constructor #turbofish (#(#names),*)))
}

fn declared(handler: &Handler) -> Vec<TokenStream> {
    let declare = |argument: &Argument| {
        let (name, ty) = (&argument.name, &argument.ty);
        quote!(#name: #ty)
    };
    handler.arguments.iter().map(declare).collect()
}

fn constructor_name(handler: &Handler) -> Ident {
    format_ident!("__message_{}", handler.name.unraw())
}

/// The attributes that decide whether a handler is there at all.
fn cfgs(handler: &Handler) -> impl Iterator<Item = &Attribute> {
    handler.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"))
}

fn priority_name(handler: &Handler) -> Ident {
    format_ident!("__priority_of_{}", handler.name.unraw())
}

fn guard_name(handler: &Handler) -> Ident {
    format_ident!("__admits_{}", handler.name.unraw())
}

/// The priorities and guards, as functions of the actor's type, which see what a method sees.
fn conditions(actor: &ActorImpl) -> Option<TokenStream> {
    let function = |handler: &Handler, condition: &Condition, name: Ident, ty: TokenStream| {
        let cfgs = cfgs(handler);
        let Condition { expression, reads, .. } = condition;
        let receiver = condition.receiver().map(|this| quote!(&#this,));
        let arguments = reads.iter().map(|&number| {
            let Argument { name, ty } = &handler.arguments[number];
            quote!(#name: &#ty)
        });
        quote! {
            #(#cfgs)*
            fn #name(#receiver #(#arguments),*) -> #ty {
                #expression
            }
        }
    };
    let functions: Vec<_> = actor
        .handlers
        .iter()
        .flat_map(|handler| {
            let priority =
                handler.priority.as_ref().map(|it| function(handler, it, priority_name(handler), quote!(i32)));
            let guard = handler.guard.as_ref().map(|it| function(handler, it, guard_name(handler), quote!(bool)));
            priority.into_iter().chain(guard)
        })
        .collect();
    if functions.is_empty() {
        return None;
    }
    let lenient = lenient();
    let ty = &actor.block.self_ty;
    let (generics, _, bounds) = actor.block.generics.split_for_impl();
    Some(quote! {
        #lenient
        impl #generics #ty #bounds {
            #(#functions)*
        }
    })
}

/// What is known of a handler's call before it is taken up, and how the handler gets those arguments back that are in
/// it.
fn call(actor: &ActorImpl, handler: &Handler, named: &Ident, called: &Ident) -> (TokenStream, Option<TokenStream>) {
    let here = actor.runtime_at(handler.name.span());
    let ty = &actor.block.self_ty;
    let call = match &handler.priority {
        Some(priority) => {
            let of = priority_name(handler);
            let read = priority.reads.iter().map(|&number| &handler.arguments[number].name);
            quote!(#here::ranked(#named, <#ty>::#of(#(&#read),*)))
        }
        None => quote!(#named),
    };
    let Some(guard) = &handler.guard else { return (call, None) };
    let admits = guard_name(handler);
    let read: Vec<_> = guard.reads.iter().map(|&number| &handler.arguments[number].name).collect();
    let types = guard.reads.iter().map(|&number| &handler.arguments[number].ty);
    let places = (0..guard.reads.len()).map(Index::from);
    let call = quote! {
        #here::guarded(#call, (#(#read,)*), |actor: &#ty, arguments: &(#(#types,)*)| {
            <#ty>::#admits(actor, #(&arguments.#places),*)
        })
    };
    let arguments = (!read.is_empty()).then(|| quote!(let (#(#read,)*) = #called.into_arguments();));
    (call, arguments)
}

/// A signature in which the compiler first meets the answer's type, so that its first error is the one with advice.
fn check_of_the_answer(actor: &ActorImpl, handler: &Handler) -> TokenStream {
    let value = &handler.value;
    let (generics, _, bounds) = actor.block.generics.split_for_impl();
    let name = format_ident!("__answer_of_{}", handler.name.unraw());
    let (cfgs, lenient, there) = (cfgs(handler), lenient(), actor.runtime_at(value.span()));
    let brings = quote_spanned!(value.span()=> #there::Brings<#value>);
    quote! {
        #(#cfgs)*
        #lenient
        fn #name #generics(_: #brings) #bounds {}
    }
}

/// The function that makes a handler's call a message.
fn constructor(actor: &ActorImpl, handler: &Handler) -> TokenStream {
    let ActorImpl { block, runtime, .. } = actor;
    let Handler { name, kind, takes_cx, value, .. } = handler;
    let lenient = lenient();
    let ty = &block.self_ty;
    let (generics, _, bounds) = block.generics.split_for_impl();
    let constructor = constructor_name(handler);
    let cfgs = cfgs(handler);
    let declared = declared(handler);
    let arguments: Vec<_> = handler.arguments.iter().map(|argument| &argument.name).collect();
    let shown = name.unraw().to_string();
    // Names that no argument can have.
    let state = Ident::new("state", Span::mixed_site());
    let cx = Ident::new("cx", Span::mixed_site());
    let named = Ident::new("Name", Span::mixed_site());
    let called = Ident::new("call", Span::mixed_site());
    let (call, carried) = call(actor, handler, &named, &called);
    // At the handler's name, so that an argument that is not `Send` is reported there.
    let span = name.span();
    let here = actor.runtime_at(span);
    let lent = |cx: TokenStream| takes_cx.then(|| quote!(#cx,));
    let answer = |call: TokenStream| {
        if handler.forwards { call } else { quote_spanned!(span=> #here::Value(#call)) }
    };
    let message = match kind {
        Kind::Plain => {
            let cx_lent = lent(quote!(#cx));
            let answer = answer(quote_spanned!(span=> <#ty>::#name(#state, #cx_lent #(#arguments),*)));
            quote_spanned! {span=>
                #here::plain(#call, move |#called, #state: &mut #here::Lease<#ty>, #cx: &#here::Cx<#ty>| {
                    #carried
                    #answer
                })
            }
        }
        Kind::Held => {
            let cx_lent = lent(quote!(&#cx));
            let answer = answer(quote_spanned!(span=> <#ty>::#name(&mut #state, #cx_lent #(#arguments),*).await));
            let cx = takes_cx.then(|| quote!(let #cx = #state.cx();));
            quote_spanned! {span=>
                #here::held(#call, move |#called, mut #state: #here::Lease<#ty>| async move {
                    #cx
                    #carried
                    #answer
                })
            }
        }
        Kind::Cooperative => {
            let answer = answer(quote_spanned!(span=> <#ty>::#name(#cx, #(#arguments),*).await));
            quote_spanned! {span=>
                #here::cooperative(#call, move |#called, #cx: #here::Cx<#ty>| async move {
                    #carried
                    #answer
                })
            }
        }
    };
    let check = check_of_the_answer(actor, handler);
    quote! {
        #check
        #(#cfgs)*
        #lenient
        fn #constructor #generics(
            #(#declared),*
        ) -> impl #runtime::Message<#ty, Value = #value> #bounds {
            struct #named;
            impl<__Actor> #runtime::Call<__Actor> for #named {
                const NAME: &'static str = #shown;
                const TAKES_CX: bool = #takes_cx;
            }
            #message
        }
    }
}
