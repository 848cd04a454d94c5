//! A newtype as the word in a cell.
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Error, Field, Member, Result, parse_quote};

use crate::actor::path_to;

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    syn::parse2(item).and_then(|item| implement(&item)).unwrap_or_else(Error::into_compile_error)
}

fn implement(item: &DeriveInput) -> Result<TokenStream> {
    let (member, Field { ty: inner, .. }) = only_field(item)?;
    let (memory, name) = (path_to("enact-stm", "stm")?, &item.ident);
    let mut generics = item.generics.clone();
    if generics.type_params().next().is_some() {
        generics.make_where_clause().predicates.push(parse_quote!(#inner: #memory::Word));
    }
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #memory::Word for #name #arguments #conditions {
            #[inline]
            fn into_bits(self) -> u64 {
                <#inner as #memory::Word>::into_bits(self.#member)
            }
            #[inline]
            fn from_bits(bits: u64) -> Self {
                Self { #member: <#inner as #memory::Word>::from_bits(bits) }
            }
        }
    })
}

fn only_field(item: &DeriveInput) -> Result<(Member, &Field)> {
    let advice = "a `Word` has one field, which is a `Word` itself; a `TVar` holds any value";
    let Data::Struct(data) = &item.data else { return Err(Error::new(item.ident.span(), advice)) };
    let mut fields = data.fields.members().zip(&data.fields);
    let only = fields.next().ok_or_else(|| Error::new(item.ident.span(), advice))?;
    match fields.next() {
        None => Ok(only),
        Some((_, second)) => Err(Error::new_spanned(second.to_token_stream(), advice)),
    }
}
