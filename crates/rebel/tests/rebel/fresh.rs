//! Ids, and instances that no request has named.

use std::collections::{BTreeMap, BTreeSet};

use enact_rebel::{Accepted, Action, EventCall, Id, Instance, Key, Reference, Refused, Spec, Value};

use crate::support::{NOW, call, spec};

const SHOP: &str = r#"
    const nobody: Id = Id "00000000-0000-0000-0000-000000000000"
    class Order
      number: Id @identity
      next: Order
      lines: Integer = 0
      initial draft
        on Place(count: Integer): placed
          let: second = fresh(Order)
               bill = fresh(Bill)
          pre: "not nobody": number != nobody
          post: this.next = second, this.lines = count
          sync:
            bill.Send(count)
            for line in 0 ..< count: bill.Add(line)
            second.Wait(bill, Bill[number])
        on Wait(_bill: Bill, _own: Bill): waiting
          let: other = fresh(Order)
          post: this.next = other
      placed, waiting
    class Bill
      id: Id @identity
      sum: Integer = 0
      last: Bill
      initial none
        on Send(n: Integer): sent
          let: another = fresh(Bill)
          post: this.sum = n, this.last = another
      sent
        on Add(n: Integer)
          let: another = fresh(Bill)
          post: this.sum += n, this.last = another
    class Shop
      orders: Set[Order] = {}
      initial closed
        on Open(): open
      open
        on Sell(count: Integer) -> Order
          let: order = fresh(Order)
          post: this.orders += order
          sync: order.Place(count)
          return: order
        on Look()
        on Possible(order: Order)
          pre: can order.Wait(Bill[nobody], Bill[nobody])
"#;

const SEED: Id = Id::from_u128(7);

fn shop(spec: &Spec) -> Reference {
    let class = spec.class("Shop").unwrap();
    class.reference(class.key("s").unwrap())
}

fn sell(spec: &Spec, count: &str, seed: impl Into<Option<Id>>) -> Result<Accepted, Refused> {
    let class = spec.class("Shop").unwrap();
    let at = shop(spec);
    let open = class.next(&at.key, &class.initial(), &call(class, "Open", &[]), NOW).unwrap();
    let world: BTreeMap<Reference, Instance> = [(at.clone(), open)].into();
    spec.step(&world, &at, &call(class, "Sell", &[count]).with_seed(seed), NOW)
}

/// Every id that a step makes up.
fn ids(step: &Accepted) -> Vec<Id> {
    let of = |reference: &Reference| match reference.key {
        Key::Id(id) => Some(id),
        _ => None,
    };
    let fields = step.after.values().flat_map(|instance| instance.fields().iter().map(|(_, value)| value.clone()));
    let named = fields.filter_map(|value| if let Value::Reference(reference) = value { of(&reference) } else { None });
    step.after.keys().filter_map(of).chain(named).collect()
}

#[test]
fn two_fresh_instances_of_one_step_differ_wherever_they_are_named() {
    let spec = spec(SHOP);
    let step = sell(&spec, "3", SEED).unwrap();
    // Two orders, one bill; what the second order and the bill name last, and nothing else has.
    let ids: BTreeSet<Id> = ids(&step).into_iter().collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
    assert_eq!(step.after.len(), 4, "the shop, two orders, a bill");
    let Some(Value::Reference(order)) = step.result else { panic!() };
    assert_eq!(step.after[&order].fields().get("lines"), Some(&Value::Integer(3)));
    assert!(ids.iter().all(|id| id.to_string().as_bytes()[14] == b'8'), "UUIDs of version 8: {ids:?}");
}

#[test]
fn what_is_fresh_follows_from_the_seed_alone() {
    let spec = spec(SHOP);
    let step = sell(&spec, "2", SEED).unwrap();
    assert_eq!(sell(&spec, "2", SEED).unwrap(), step);
    let other = sell(&spec, "2", Id::from_u128(8)).unwrap();
    let (ids, others): (BTreeSet<Id>, BTreeSet<Id>) =
        (ids(&step).into_iter().collect(), ids(&other).into_iter().collect());
    assert!(ids.is_disjoint(&others));
    let Some(Value::Reference(order)) = step.result else { panic!() };
    // printf '%032x%02x%016x' 7 0 0 | xxd -r -p | sha256sum, with version and variant of a UUID.
    assert_eq!(order.to_string(), "Order 311b74d1-4429-86c5-bf30-45d4c44cb964");
}

#[test]
fn an_event_is_replayed_with_the_instances_that_it_named() {
    let spec = spec(SHOP);
    let step = sell(&spec, "2", SEED).unwrap();
    for (at, tasks) in &step.work {
        let class = spec.class(&at.class).unwrap();
        let mut instance = if at.class == shop(&spec).class {
            class.next(&at.key, &class.initial(), &call(class, "Open", &[]), NOW).unwrap()
        } else {
            class.initial()
        };
        for task in tasks {
            let Action::Do(call) = &task.action else { panic!() };
            let read: EventCall = serde_json::from_slice(&serde_json::to_vec(call).unwrap()).unwrap();
            assert_eq!(&read, call);
            instance = class.act(&at.key, &instance, &read, NOW).unwrap();
        }
        assert_eq!(instance, step.after[at]);
    }
}

#[test]
fn a_call_without_fresh_instances_is_journaled_as_before() {
    let spec = spec(SHOP);
    let class = spec.class("Shop").unwrap();
    let text = serde_json::to_string(&call(class, "Look", &[])).unwrap();
    assert_eq!(text, r#"{"event":"Look","arguments":{}}"#);
    let needs = |class: &str| -> Vec<&str> {
        let events = spec.class(class).unwrap().events().iter().filter(|event| event.needs_seed());
        events.map(|event| &**event.name()).collect::<Vec<_>>().leak().to_vec()
    };
    assert_eq!((needs("Shop"), needs("Bill")), (vec!["Sell"], vec!["Send", "Add"]), "what it may call counts");
}

#[test]
fn without_a_seed_nothing_is_made_up() {
    let spec = spec(SHOP);
    let refused = sell(&spec, "1", None).unwrap_err().to_string();
    assert!(refused.contains("the step has no seed for a fresh instance"), "{refused}");
}

#[test]
fn an_event_that_names_a_fresh_instance_is_possible_with_any_seed() {
    let spec = spec(SHOP);
    let class = spec.class("Shop").unwrap();
    let at = shop(&spec);
    let open = class.next(&at.key, &class.initial(), &call(class, "Open", &[]), NOW).unwrap();
    let world: BTreeMap<Reference, Instance> = [(at.clone(), open)].into();
    let order = "0190163d-8694-739b-aea5-966c26f8ad91";
    spec.step(&world, &at, &call(class, "Possible", &[order]), NOW).unwrap();
}

#[test]
fn an_id_is_a_literal_a_key_and_a_value() {
    let spec = spec(SHOP);
    let class = spec.class("Order").unwrap();
    assert!(class.key("0190163d-8694-739b-aea5-966c26f8ad91").is_ok());
    assert!(class.key("0190163D-8694-739B-AEA5-966C26F8AD91").is_err() && class.key("1").is_err());
    let nobody = class.reference(class.key("00000000-0000-0000-0000-000000000000").unwrap());
    let place = call(class, "Place", &["0"]).with_seed(SEED);
    let refused = spec.step(&BTreeMap::new(), &nobody, &place, NOW).unwrap_err().to_string();
    assert!(refused.contains("not nobody"), "{refused}");
}
