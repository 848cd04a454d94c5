//! The types of the language as JSON schemas: what [`value`](crate::value) reads and writes.

use std::sync::Arc;

use enact_rebel::{RecordType, Type};
use serde_json::{Value as JsonValue, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat,
    SchemaType, Type as JsonType,
};
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::value::to_json;

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
        Type::Record(record) => taken_record(record),
        Type::List(_) | Type::Map(_) | Type::Optional(_) => composed(ty, taken),
        Type::Personal(ty) => taken(ty),
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
        Type::List(_) | Type::Map(_) | Type::Record(_) | Type::Optional(_) => composed(ty, given),
        // What was erased is null.
        Type::Personal(ty) => given(&Type::Optional(Arc::clone(ty))),
        Type::Decimal(decimals) => ObjectBuilder::new()
            .schema_type(JsonType::String)
            .pattern(Some(match decimals {
                0 => "^-?[0-9]+$".to_owned(),
                _ => format!("^-?[0-9]+([.][0-9]{{1,{decimals}}})?$"),
            }))
            .description(Some("An exact decimal number"))
            .into(),
        Type::MoneyOf(currency) => ObjectBuilder::new()
            .schema_type(JsonType::String)
            .pattern(Some(format!("^{currency} -?[0-9]+([.][0-9]+)?$")))
            .description(Some(format!("An exact amount in {currency}")))
            .into(),
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

/// The same schema of what may be left out, and is `default` then.
pub(crate) fn with_default(schema: RefOr<Schema>, default: JsonValue) -> RefOr<Schema> {
    let default = Some(default);
    let mut schema = match schema {
        RefOr::T(schema @ (Schema::Object(_) | Schema::Array(_) | Schema::OneOf(_))) => schema,
        other => Schema::AllOf(AllOfBuilder::new().item(other).build()),
    };
    match &mut schema {
        Schema::Object(object) => object.default = default,
        Schema::Array(array) => array.default = default,
        Schema::OneOf(one) => one.default = default,
        Schema::AllOf(all) => all.default = default,
        _ => {}
    }
    RefOr::T(schema)
}

/// The schema of a record of which what has a default may be left out.
fn taken_record(record: &RecordType) -> RefOr<Schema> {
    let fields = record.fields.iter().enumerate();
    let object =
        fields.fold(ObjectBuilder::new().schema_type(JsonType::Object), |object, (index, (name, ty))| {
            match (record.default(index), ty) {
                (Some(default), _) => object.property(&**name, with_default(taken(ty), to_json(default))),
                (None, Type::Optional(_)) => object.property(&**name, taken(ty)),
                (None, _) => object.property(&**name, taken(ty)).required(&**name),
            }
        });
    object.additional_properties(Some(AdditionalProperties::FreeForm(false))).into()
}

/// The schema of a type that is made of others, whose schemas `of` gives.
fn composed(ty: &Type, of: fn(&Type) -> RefOr<Schema>) -> RefOr<Schema> {
    match ty {
        Type::List(element) => ArrayBuilder::new().items(of(element)).into(),
        Type::Map(types) => ObjectBuilder::new()
            .schema_type(JsonType::Object)
            .additional_properties(Some(of(&types.1)))
            .description(Some(format!("The names are keys: {}", types.0)))
            .into(),
        Type::Record(record) => {
            let fields = record.fields.iter();
            let object = fields.fold(ObjectBuilder::new().schema_type(JsonType::Object), |object, (name, ty)| {
                let object = object.property(&**name, of(ty));
                if matches!(ty, Type::Optional(_)) { object } else { object.required(&**name) }
            });
            object.additional_properties(Some(AdditionalProperties::FreeForm(false))).into()
        }
        Type::Optional(ty) => {
            let null = ObjectBuilder::new().schema_type(JsonType::Null);
            OneOfBuilder::new().item(null).item(of(ty)).into()
        }
        other => of(other),
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
        (Type::Time, "^[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{3})?)?$", "18:30", "A time of day"),
        (Type::Duration, "^-?[0-9]+ (millisecond|second|minute|hour)s?$", "15 minutes", "A span of time"),
        (
            Type::Period,
            "^-?[0-9]+ (day|week|month|year)s?( -?[0-9]+ (day|week|month|year)s?)*$",
            "1 month",
            "A span of the calendar",
        ),
        (
            Type::Id,
            "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            "01a20078-cae1-8477-9acd-448bb5c93e5f",
            "An identity of 128 bits",
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
