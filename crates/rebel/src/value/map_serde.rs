//! Serialised form of maps: a sequence of pairs, because not every format has keys that are no texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use super::{Value, ValueError};

pub(super) fn serialize<S: Serializer>(entries: &Arc<BTreeMap<Value, Value>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(entries.iter())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<BTreeMap<Value, Value>>, D::Error> {
    let mut entries = BTreeMap::new();
    for (key, value) in Vec::<(Value, Value)>::deserialize(from)? {
        if entries.insert(key.clone(), value).is_some() {
            return Err(D::Error::custom(ValueError::twice(&key)));
        }
    }
    Ok(Arc::new(entries))
}
