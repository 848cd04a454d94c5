//! The types of the language as JSON schemas: what [`value`](crate::value) reads and writes.

use enact_rebel::Type;
use serde_json::json;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type as JsonType};
use utoipa::openapi::{Ref, RefOr, Schema};

/// Text of an id: what is left of a path segment after percent-decoding.
pub(crate) const ID_PATTERN: &str = "^[A-Za-z0-9._:-]{1,128}$";

/// Schema of what is taken as a value of type `ty`.
pub(crate) fn taken(ty: &Type) -> RefOr<Schema> {
    match ty {
        Type::Integer => ObjectBuilder::new()
            .schema_type([JsonType::Integer, JsonType::String].into_iter().collect::<SchemaType>())
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .pattern(Some("^-?[0-9]+$"))
            .description(Some("An integer, or its digits in a string; no fraction and no exponent"))
            .into(),
        Type::Set(element) => set_of(taken(element)),
        other => given(other),
    }
}

/// Schema of what is given as a value of type `ty`.
pub(crate) fn given(ty: &Type) -> RefOr<Schema> {
    match ty {
        Type::Boolean => ObjectBuilder::new().schema_type(JsonType::Boolean).into(),
        Type::Integer => ObjectBuilder::new()
            .schema_type(JsonType::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .into(),
        Type::Set(element) => set_of(given(element)),
        Type::Enum(enumeration) => {
            let variants = enumeration.variants.iter().map(|variant| json!(**variant)).collect::<Vec<_>>();
            ObjectBuilder::new().schema_type(JsonType::String).enum_values(Some(variants)).into()
        }
        Type::Reference { class, .. } => ObjectBuilder::new()
            .schema_type(JsonType::String)
            .pattern(Some(ID_PATTERN))
            .description(Some(format!("The id of an instance of {class}")))
            .into(),
        Type::String => ObjectBuilder::new().schema_type(JsonType::String).into(),
        text => Ref::from_schema_name(format!("enact.{text}")).into(),
    }
}

fn set_of(element: RefOr<Schema>) -> RefOr<Schema> {
    ArrayBuilder::new().items(element).unique_items(true).into()
}

/// The types that are written as text of a form of their own, with that form.
pub(crate) fn text_forms() -> impl Iterator<Item = (String, RefOr<Schema>)> {
    let rows = [
        (Type::Money, "^[A-Z]{3} -?[0-9]+([.][0-9]+)?$", "EUR 12.50", "An exact amount, with its currency of ISO 4217"),
        (Type::Percentage, "^-?[0-9]+([.][0-9]+)?%$", "2.5%", "An exact percentage"),
        (Type::Currency, "^[A-Z]{3}$", "EUR", "A currency of ISO 4217"),
        (Type::Iban, "^[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}$", "NL91ABNA0417164300", "A bank account number"),
        (Type::Date, "^([0-9]{4}|[+-][0-9]{6,9})-[0-9]{2}-[0-9]{2}$", "2026-11-21", "A day"),
        (
            Type::Timestamp,
            "^([0-9]{4}|[+-][0-9]{6,9})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{3})?)?Z$",
            "2026-11-21T09:30:00.000Z",
            "A point in time, with milliseconds",
        ),
    ];
    rows.into_iter().map(|(ty, pattern, example, description)| {
        let schema = ObjectBuilder::new()
            .schema_type(JsonType::String)
            .pattern(Some(pattern))
            .examples([example])
            .description(Some(description));
        (format!("enact.{ty}"), schema.into())
    })
}
