//! What specifications mean.

use enact_rebel::{Action, ArgumentError, Instance, Key, Timestamp, Value, Violation};

use crate::support::{NOW, call, class, field, key, money, next, refusal, run, spec};

const ACCOUNT: &str = include_str!("../../../../examples/listing2.rebel");

#[test]
fn listing_2_runs_as_in_figures_1_to_3() {
    let account = class(ACCOUNT, "Account");
    let opened = run(&account, &[("Open", &["EUR 100.00"])]);
    let c1 = next(&account, &opened, "Withdraw", &["EUR 30.00"]).unwrap();
    assert_eq!(field(&c1, "balance"), "EUR 70.00");
    let c2 = next(&account, &c1, "Withdraw", &["EUR 50.00"]).unwrap();
    assert_eq!(field(&c2, "balance"), "EUR 20.00");
    assert_eq!(
        refusal(&account, &c2, "Withdraw", &["EUR 60.00"]),
        ["balance - amount ≥ €0, where balance = EUR 20.00, amount = EUR 60.00"]
    );
}

#[test]
fn listing_2_books_a_transfer_by_two_calls() {
    let transfer = class(ACCOUNT, "MoneyTransfer");
    let book = call(&transfer, "Book", &["EUR 5.00", "GB82WEST12345698765432", "NL91ABNA0417164300"]);
    let syncs = transfer.syncs(&key(&transfer), &transfer.initial(), &book, NOW).unwrap();
    let shown: Vec<String> = syncs
        .iter()
        .map(|sync| match &sync.action {
            Action::Do(call) => format!("{}: {call}", sync.target),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Account NL91ABNA0417164300: Withdraw(amount: EUR 5.00)",
            "Account GB82WEST12345698765432: Deposit(amount: EUR 5.00)",
        ]
    );
    assert_eq!(syncs[0].text.as_ref(), "from.Withdraw(amount)");
    assert_eq!(
        run(&transfer, &[("Book", &["EUR 5.00", "GB82WEST12345698765432", "NL91ABNA0417164300"])]).state().as_ref(),
        "booked"
    );
}

#[test]
fn an_event_is_refused_in_a_state_that_does_not_have_it() {
    let account = class(ACCOUNT, "Account");
    let missing = account.initial();
    assert_eq!(missing.state().as_ref(), "init");
    assert!(missing.fields().is_empty(), "no field has a value before the first event");
    assert_eq!(
        refusal(&account, &missing, "Close", &[]),
        ["`Close` is not possible in state `init`, only in `opened`"]
    );
    let closed = run(&account, &[("Open", &["EUR 0.00"]), ("Close", &[])]);
    for (event, arguments) in [("Open", ["EUR 1.00"].as_slice()), ("Deposit", &["EUR 1.00"]), ("Close", &[])] {
        assert!(matches!(&next(&account, &closed, event, arguments).unwrap_err()[..], [Violation::LifeCycle { .. }]));
    }
}

#[test]
fn all_guards_that_fail_are_reported_with_the_values_they_saw() {
    let source = "class A n: Integer = 7 initial i on E(k: Integer): s
        pre: \"k is small\": k < 5, n == 7, \"n is large\": n > k + k
        s";
    let a = class(source, "A");
    let violations = next(&a, &a.initial(), "E", &["6"]).unwrap_err();
    let expected = |text: &str, condition: &str, values: &[(&str, i64)]| Violation::Guard {
        text: text.into(),
        condition: condition.into(),
        values: values.iter().map(|(name, number)| ((*name).into(), Value::Integer(*number))).collect(),
    };
    assert_eq!(
        violations,
        [expected("k is small", "k < 5", &[("k", 6)]), expected("n is large", "n > k + k", &[("n", 7), ("k", 6)]),]
    );
    assert_eq!(violations[1].to_string(), "n is large: `n > k + k`, where n = 7, k = 6");
}

#[test]
fn fields_that_no_effect_names_keep_their_value_and_effects_see_old_values() {
    let source = "class A a: Integer = 1 b: Integer = 2 c: Integer = 3 initial i on Begin(): s\ns
        on Swap() post: this.a == b, this.b == a";
    let a = class(source, "A");
    let swapped = run(&a, &[("Begin", &[]), ("Swap", &[])]);
    assert_eq!(["a", "b", "c"].map(|name| field(&swapped, name)), ["2", "1", "3"]);
}

#[test]
fn before_the_first_event_fields_have_their_defaults_and_others_no_value() {
    let source = "class A a: Integer b: Integer = 2 c: Integer = 3 initial i
        on E(k: Integer): s pre: b == 2, c == 3 post: this.a == b * c + k\n        s";
    let a = class(source, "A");
    let initial = a.initial();
    let names: Vec<&str> = initial.fields().iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(field(&run(&a, &[("E", &["1"])]), "a"), "7");
}

#[test]
fn a_state_that_is_named_twice_is_one_state_and_a_group_shares_its_events() {
    let source = "class A n: Integer = 0
        initial i on Begin(): s
        s on One() post: this.n += 1
        s, t on Two() post: this.n += 2
        s on Go(): t";
    let a = class(source, "A");
    let names: Vec<&str> = a.states().iter().map(|state| &**state.name()).collect();
    assert_eq!(names, ["i", "s", "t"]);
    let end = run(&a, &[("Begin", &[]), ("One", &[]), ("Two", &[]), ("Go", &[]), ("Two", &[])]);
    assert_eq!((field(&end, "n").as_str(), end.state().as_ref()), ("5", "t"));
    let two: Vec<_> = a.event("Two").unwrap().transitions().map(|(from, to)| (&**from, &**to)).collect();
    assert_eq!(two, [("s", "s"), ("t", "t")], "without a target, an event stays in its state");
}

#[test]
fn invariants_hold_after_every_event() {
    let source = "class A n: Integer = 0
        invariant \"n stays below ten\": n < 10
        invariant n != 5
        initial i on Begin(k: Integer): s post: this.n == k
        s on Add(k: Integer) post: this.n += k";
    let a = class(source, "A");
    let four = run(&a, &[("Begin", &["4"])]);
    assert_eq!(refusal(&a, &four, "Add", &["1"]), ["n != 5, where n = 5"]);
    assert_eq!(refusal(&a, &four, "Add", &["6"]), ["n stays below ten: `n < 10`, where n = 10"]);
    assert!(matches!(next(&a, &a.initial(), "Begin", &["12"]).unwrap_err()[0], Violation::Invariant { .. }));
}

#[test]
fn amounts_of_different_currencies_are_unequal_and_never_added_or_ordered() {
    let account = class(ACCOUNT, "Account");
    let opened = run(&account, &[("Open", &["EUR 10.00"])]);
    let violations = refusal(&account, &opened, "Withdraw", &["USD 1.00"]);
    assert_eq!(
        violations,
        [
            "currency mismatch: USD and EUR, in `amount > €0`, where amount = USD 1.00",
            "currency mismatch: EUR and USD, in `balance - amount ≥ €0`, where balance = EUR 10.00, amount = USD 1.00",
        ]
    );
    let source = "class A initial i
        on Less(a: Money, b: Money): s pre: a < b
        on Same(a: Money, b: Money): s pre: a == b
        on Other(a: Money, b: Money): s pre: a != b
        on Zero(a: Money, _b: Money): s pre: a == 0, 0 <= a
        s";
    let a = class(source, "A");
    let holds = |event, x, y| next(&a, &a.initial(), event, &[x, y]).is_ok();
    for (x, y, less, same) in [
        ("EUR 1.00", "EUR 2.00", true, false),
        ("EUR 1.00", "USD 2.00", false, false),
        ("USD 1.00", "EUR 2.00", false, false),
        ("EUR 1.00", "EUR 1.00", false, true),
        ("EUR 0.00", "USD 0.00", false, false),
    ] {
        assert_eq!((holds("Less", x, y), holds("Same", x, y), holds("Other", x, y)), (less, same, !same), "{x} {y}");
    }
    assert!(holds("Zero", "USD 0.00", "EUR 0.00") && holds("Zero", "JPY 0", "EUR 0.00"), "zero has no currency");
}

#[test]
fn a_share_of_an_amount_is_rounded_as_its_file_declares() {
    let file = |rounding: &str, name: &str| {
        format!("{rounding} class {name} m: Money initial i on E(x: Money, p: Percentage): s post: this.m == x * p\ns")
    };
    for (rounding, expected) in [
        ("", "EUR 0.00"),
        ("rounding half-even", "EUR 0.00"),
        ("rounding half-up", "EUR 0.01"),
        ("rounding ceiling", "EUR 0.01"),
        ("rounding floor", "EUR 0.00"),
    ] {
        let a = class(&file(rounding, "A"), "A");
        assert_eq!(field(&run(&a, &[("E", &["EUR 0.05", "10%"])]), "m"), expected, "{rounding}");
    }
    // Each file its own rule.
    let sources = vec![
        enact_rebel::Source::new("up", file("rounding up", "A")),
        enact_rebel::Source::new("down", file("rounding down", "B")),
    ];
    let spec = enact_rebel::check(sources).unwrap();
    for (name, expected) in [("A", "EUR 0.01"), ("B", "EUR 0.00")] {
        assert_eq!(field(&run(spec.class(name).unwrap(), &[("E", &["EUR 0.01", "10%"])]), "m"), expected);
    }
}

#[test]
fn a_result_out_of_range_is_a_reason_and_not_a_number() {
    let source = "class A n: Integer = 0 m: Money = EUR 0.00 d: Date = 2026-01-01 initial i on Begin(): s\ns
        on Add(k: Integer) post: this.n += k
        on Times(k: Integer) pre: k * k * k > 0
        on Minus(k: Integer) post: this.n == -k
        on Pay(x: Money) post: this.m == x + x
        on Wait(k: Integer) post: this.d += k";
    let a = class(source, "A");
    let ready = run(&a, &[("Begin", &[]), ("Add", &["1"])]);
    for (event, argument, place) in [
        ("Add", "9223372036854775807", "this.n += k"),
        ("Times", "9223372036854775807", "k * k * k > 0"),
        ("Minus", "-9223372036854775808", "this.n == -k"),
        ("Pay", "EUR 9999999999999999999999999999999999.99", "this.m == x + x"),
        ("Wait", "9223372036854775807", "this.d += k"),
    ] {
        let violations = next(&a, &ready, event, &[argument]).unwrap_err();
        let text = violations[0].to_string();
        assert!(text.starts_with(&format!("the result is out of range, in `{place}`, where")), "{text}");
    }
}

#[test]
fn operators_bind_as_in_the_grammar() {
    for (expression, expected) in [
        ("1 + 2 * 3 == 7", true),
        ("(1 + 2) * 3 == 9", true),
        ("10 - 3 - 2 == 5", true),
        ("-2 * 3 == -6", true),
        ("2 - -2 == 4", true),
        ("not true or true", true),
        ("not (true or true)", false),
        ("not 1 == 2", true),
        ("true or true and false", true),
        ("(true or true) and false", false),
        ("1 in {1, 2} and not (3 in {1, 2})", true),
        ("{1, 2} + 3 == {3, 2, 1}", true),
        ("{1, 2} - 2 == {1}", true),
        ("({1} + 1).size == 1", true),
        ("if 1 > 2 then false else true", true),
        ("2 * 5% == 10%", true),
        ("5% + 2.5% == 7.5%", true),
        ("50% * EUR 3.00 == EUR 1.50", true),
        ("3 * EUR 1.50 == EUR 4.50", true),
        ("€1.50 == EUR 1.5", true),
        ("EUR -1.00 == -€1", true),
        ("EUR 1.00.currency == USD 1.00.currency", false),
        ("2026-11-21 - 2026-11-01 == 20", true),
        ("2026-02-28 + 1 == 2026-03-01", true),
        ("today == 2026-11-21", true),
        ("\"a\\\"b\" == \"a\\\"b\" and \"a\" != \"b\"", true),
        ("1 ≤ 2 and 2 ≥ 2 and 1 ≠ 2 and 2 ≡ 2", true),
    ] {
        let source = format!("class A initial i on E(): s pre: {expression}\ns");
        let a = class(&source, "A");
        assert_eq!(next(&a, &a.initial(), "E", &[]).is_ok(), expected, "{expression}");
    }
}

#[test]
fn the_right_side_is_only_evaluated_if_the_left_does_not_decide() {
    let source = "class A initial i
        on Both(k: Integer): s pre: k < 10 and k * 9223372036854775807 > 0
        on Either(k: Integer): s pre: k > 10 or k * 9223372036854775807 > 0
        on Choice(k: Integer): s pre: if k > 10 then true else k * 9223372036854775807 > 0
        s";
    let a = class(source, "A");
    assert!(matches!(next(&a, &a.initial(), "Both", &["20"]).unwrap_err()[0], Violation::Guard { .. }));
    assert!(next(&a, &a.initial(), "Either", &["20"]).is_ok());
    assert!(next(&a, &a.initial(), "Choice", &["20"]).is_ok());
    assert!(matches!(next(&a, &a.initial(), "Both", &["5"]).unwrap_err()[0], Violation::Arithmetic { .. }));
}

#[test]
fn constants_functions_and_enums_are_what_they_stand_for() {
    let source = "
        const double: Integer = twice(base)
        const base: Integer = 21
        enum Size { small, large }
        fn twice(n: Integer): Integer = n + n
        fn price(of: Size, unit: Money): Money = if of == Size.large then unit * 2 else unit
        class A paid: Money = EUR 0.00 size: Size = Size.small initial i
          on Buy(what: Size, offer: Money): s
            pre: offer == price(what, EUR 5.00), double == 42
            post: this.paid == offer, this.size == what
          s";
    let a = class(source, "A");
    assert_eq!(field(&run(&a, &[("Buy", &["large", "EUR 10.00"])]), "size"), "large");
    assert!(next(&a, &a.initial(), "Buy", &["small", "EUR 10.00"]).is_err());
}

#[test]
fn the_time_of_an_event_is_what_the_caller_says() {
    let source = "class A made: Timestamp day: Date initial i on E(): s post: this.made == now, this.day == today\ns
        on Later(): s pre: now > made, today >= day";
    let a = class(source, "A");
    let made = run(&a, &[("E", &[])]);
    assert_eq!(
        (field(&made, "made").as_str(), field(&made, "day").as_str()),
        ("2026-11-21T09:30:00.000Z", "2026-11-21")
    );
    assert!(next(&a, &made, "Later", &[]).is_err());
    let later = Timestamp::from_millis(NOW.millis() + 1);
    assert!(a.next(&key(&a), &made, &call(&a, "Later", &[]), later).is_ok());
}

#[test]
fn the_identity_and_the_instance_itself_can_be_read() {
    let source = "
        class Account id: Integer @identity initial i on Open(): s\n        s
          on Pay(to: Account) pre: to != this, id != 13 sync: to.Receive(this, id)
          on Receive(from: Account, number: Integer) pre: from != this, number > 0";
    let account = class(source, "Account");
    let open = run(&account, &[("Open", &[])]);
    assert!(refusal(&account, &open, "Pay", &["1"])[0].starts_with("to != this"), "the identity in these tests is 1");
    let pay = call(&account, "Pay", &["2"]);
    let syncs = account.syncs(&Key::Integer(7), &open, &pay, NOW).unwrap();
    let Action::Do(receive) = &syncs[0].action else { panic!("{syncs:?}") };
    assert_eq!(receive.to_string(), "Receive(from: 7, number: 7)");
    assert!(account.next(&Key::Integer(13), &open, &pay, NOW).is_err());
    let wrong = account.next(&Key::String("7".into()), &open, &pay, NOW).unwrap_err();
    assert_eq!(wrong[0].to_string(), "the identity of Account is of type Integer, which `\"7\"` is not");
}

#[test]
fn syncs_are_conditions_first_and_then_calls_with_old_values() {
    let source = "
        class Account initial i on Open(): opened\n        opened on Take(sum: Integer) on Put(sum: Integer) final closed
        class Goal saved: Integer = 0 house: Account savers: Set[Account] = {}
          initial i on Begin(h: Account): s pre: \"no house\": initialized h post: this.house == h
          s
            on Save(by: Account, sum: Integer)
              pre: by instate {opened, closed}
              post: this.saved += sum, this.savers += by
              sync: by.Take(sum)
            on Pay(bonus: Integer): s
              post: this.saved == 0
              sync:
                house.Put(saved)
                not house.Take(saved + 1)
                if saved > 100: house.Put(1)
                if saved <= 100: house.Put(2)
                for saver in savers: saver.Put(bonus + saved)
                for saver in savers: if saver != house: saver.Take(0)";
    let goal = class(source, "Goal");
    let shown = |instance: &Instance, event, arguments: &[&str]| -> Vec<String> {
        let syncs = goal.syncs(&key(&goal), instance, &call(&goal, event, arguments), NOW).unwrap();
        syncs
            .into_iter()
            .map(|sync| match sync.action {
                Action::Do(call) => format!("{} {call}", sync.target.key),
                Action::Impossible(call) => format!("{} not {call}", sync.target.key),
                Action::Initialized => format!("{} initialized ({})", sync.target.key, sync.text),
                Action::InState(states) => format!("{} in {}", sync.target.key, states.join("|")),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(shown(&goal.initial(), "Begin", &["h"]), ["h initialized (no house)"]);
    let begun = run(&goal, &[("Begin", &["h"])]);
    assert_eq!(shown(&begun, "Save", &["a", "5"]), ["a in opened|closed", "a Take(sum: 5)"]);
    let saved = run(&goal, &[("Begin", &["h"]), ("Save", &["b", "5"]), ("Save", &["a", "6"]), ("Save", &["h", "1"])]);
    assert_eq!(
        shown(&saved, "Pay", &["3"]),
        [
            "h Put(sum: 12)",
            "h not Take(sum: 13)",
            "h Put(sum: 2)",
            "a Put(sum: 15)",
            "b Put(sum: 15)",
            "h Put(sum: 15)",
            "a Take(sum: 0)",
            "b Take(sum: 0)",
        ]
    );
    let missing = goal.syncs(&key(&goal), &goal.initial(), &call(&goal, "Pay", &["3"]), NOW).unwrap_err();
    assert!(matches!(missing[0], Violation::LifeCycle { .. }));
}

#[test]
fn an_argument_of_a_call_without_a_value_is_a_reason() {
    let source = "
        class B initial i on F(m: Money): s\n        s
        class A initial i on E(b: B, x: Money, y: Money): s sync: b.F(x + y)\n        s";
    let a = class(source, "A");
    let errors = a.syncs(&key(&a), &a.initial(), &call(&a, "E", &["b", "EUR 1.00", "USD 1.00"]), NOW).unwrap_err();
    assert!(
        errors[0].to_string().starts_with("currency mismatch: EUR and USD, in `b.F(x + y)`, where"),
        "{}",
        errors[0]
    );
}

#[test]
fn arguments_that_do_not_fit_are_all_named() {
    let source = "class A initial i on E(a: Integer, b: Money, c: Boolean): s pre: c, a > 0, b > 0\ns";
    let a = class(source, "A");
    let errors = a
        .event("E")
        .unwrap()
        .call([
            ("a", Value::Boolean(true)),
            ("d", Value::Integer(1)),
            ("b", money("EUR 1.00")),
            ("b", money("EUR 2.00")),
        ])
        .unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "`E` got the parameter `b` twice",
            "the parameter `a` of `E` is of type Integer, which `true` is not",
            "`E` needs the parameter `c` of type Boolean",
            "`E` has no parameter `d`; it has a, b, c",
        ]
    );
    let stored = serde_json::from_str(r#"{"event":"E","arguments":{}}"#).unwrap();
    let violations = a.next(&key(&a), &a.initial(), &stored, NOW).unwrap_err();
    assert!(violations.iter().all(|violation| matches!(violation, Violation::Argument(ArgumentError::Missing { .. }))));
    assert_eq!(violations.len(), 3);
}

#[test]
fn a_stored_instance_is_verified_against_its_class() {
    let source = "class A n: Integer = 0 m: Money invariant n >= 0 initial i on E(x: Money): s post: this.m == x\ns";
    let a = class(source, "A");
    let verify = |json: &str| -> Vec<String> {
        let instance: Instance = serde_json::from_str(json).unwrap();
        a.verify(&key(&a), &instance).err().unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    assert!(verify(r#"{"state":"s","fields":{"n":{"Integer":1},"m":{"Money":"EUR 1.00"}}}"#).is_empty());
    assert!(
        verify(r#"{"state":"i","fields":{"n":{"Integer":0}}}"#).is_empty(),
        "nothing needs a value before the first event"
    );
    assert_eq!(
        verify(r#"{"state":"s","fields":{"n":{"Integer":-1},"m":{"Money":"EUR 1.00"}}}"#),
        ["n >= 0, where n = -1"]
    );
    assert_eq!(
        verify(r#"{"state":"t","fields":{"n":{"Money":"EUR 1.00"},"o":{"Integer":1}}}"#),
        [
            "A has no state `t`",
            "the field `n` of A is of type Integer, not `EUR 1.00`",
            "the field `m` of A is of type Money, and has no value",
            "A has no field `o`",
        ]
    );
}

#[test]
fn a_stored_instance_without_a_value_that_is_read_is_refused_and_does_not_panic() {
    let account = class(ACCOUNT, "Account");
    let stored: Instance = serde_json::from_str(r#"{"state":"opened","fields":{}}"#).unwrap();
    let texts = refusal(&account, &stored, "Withdraw", &["EUR 1.00"]);
    assert_eq!(
        texts,
        ["`balance` has no value of its declared type, in `balance - amount ≥ €0`, where amount = EUR 1.00"]
    );
}

#[test]
fn the_model_tells_what_the_source_declares() {
    let spec = spec(
        "
        /// An account
        /// of a bank.
        class Account
          /// Where.
          iban: Iban @identity
          /// How much.
          balance: Money = EUR 0.00
          initial init
            /// Begins it.
            on Open(first: Money): opened pre: first > 0
          opened
            internal on Freeze(why: String, by: Set[Account]): frozen pre: why != \"\", by.size > 0
          final frozen
        class Court initial i on Rule(a: Account): s sync: a.Freeze(\"x\", {a})\n        s
        enum Kind { a, b } class K k: Kind = Kind.a initial i",
    );
    let account = spec.class("Account").unwrap();
    assert_eq!(
        (account.documentation(), account.identity().first().map(|name| &**name)),
        ("An account\nof a bank.", Some("iban"))
    );
    let balance = &account.fields()[0];
    assert_eq!(
        (&**balance.name(), balance.ty().to_string(), balance.documentation()),
        ("balance", "Money".into(), "How much.")
    );
    let open = account.event("Open").unwrap();
    assert_eq!((open.documentation(), open.is_internal()), ("Begins it.", false));
    let freeze = account.event("Freeze").unwrap();
    let params: Vec<String> = freeze.params().iter().map(|param| format!("{}: {}", param.name(), param.ty())).collect();
    assert_eq!((params.join(", ").as_str(), freeze.is_internal()), ("why: String, by: Set[Account]", true));
    let kinds: Vec<String> =
        account.states().iter().map(|state| format!("{} {:?}", state.name(), state.kind())).collect();
    assert_eq!(kinds, ["init Initial", "opened Intermediate", "frozen Final"]);
    assert_eq!(spec.enums().next().unwrap().variants.len(), 2);
    assert!(spec.class("Nobody").is_none() && account.event("Nothing").is_none());
}

#[test]
fn a_named_value_is_computed_once_from_the_values_before_the_event_and_only_if_it_is_used() {
    let tank = class(
        "class Tank
           litres: Integer = 90
           shares: Integer = 0
           initial empty
             on Fill(by: Integer): filled
               let:
                 level = litres + by
                 left = 100 - level
               pre: \"it holds 100 litres\": left >= 0
               post:
                 this.litres = level
                 this.shares = left
           filled
             on Share(among: Integer)
               let: product = litres * among
               post: this.shares = if among > 1000 then 0 else product",
        "Tank",
    );
    let filled = run(&tank, &[("Fill", &["4"])]);
    assert_eq!((field(&filled, "litres"), field(&filled, "shares")), ("94".to_owned(), "6".to_owned()));
    assert_eq!(
        refusal(&tank, &tank.initial(), "Fill", &["20"]),
        ["it holds 100 litres: `left >= 0`, where left = -10, litres = 90, by = 20"]
    );
    let overflow = i64::MAX.to_string();
    assert_eq!(
        field(&next(&tank, &filled, "Share", &[&overflow]).unwrap(), "shares"),
        "0",
        "what is not used cannot fault"
    );
}

#[test]
fn a_value_that_is_named_by_others_is_computed_once_however_often_it_is_used() {
    let named = |depth: usize| {
        let lets: String = (1..depth).map(|n| format!("                 v{n} = v{} + v{}\n", n - 1, n - 1)).collect();
        format!(
            "class Sum
           total: Integer = 0
           initial none
             on Add(by: Integer): some
               let:
                 v0 = by
{lets}               pre: v{last} >= 0 and v{last} != 7
               post: this.total = v{last}",
            last = depth - 1
        ) + "\n           some"
    };
    let sum = class(&named(61), "Sum");
    assert_eq!(field(&run(&sum, &[("Add", &["3"])]), "total"), (3_i64 << 60).to_string());
    assert!(sum.linear(&key(&sum), &[call(&sum, "Add", &["3"])], NOW).is_none(), "the state changes");
}

#[test]
fn an_event_calls_others_of_its_own_instance_which_see_what_it_has_done() {
    let spec = spec(
        "class Meter
           count: Integer = 0
           initial off
             on Start(by: Integer): on_
               post: this.count = by
               sync: this.Tick(by), this.Tick(by)
           on_
             internal on Tick(most: Integer)
               pre: \"too many\": count <= most + 1
               post: this.count += 1
             on Overrun()
               sync: for n in 0 .. 2: this.Tick(count)",
    );
    let meter = spec.class("Meter").unwrap();
    let target = meter.reference(key(meter));
    let world = std::collections::BTreeMap::new();
    let started = spec.step(&world, &target, &call(meter, "Start", &["5"]), NOW).unwrap();
    assert_eq!(field(&started.after[&target], "count"), "7");
    let refused = spec.step(&started.after, &target, &call(meter, "Overrun", &[]), NOW).unwrap_err();
    assert_eq!(refused.path.len(), 2, "{refused}");
    assert!(refused.to_string().contains("too many: `count <= most + 1`, where count = 9, most = 7"), "{refused}");
}
