//! Pairs of events for each way of getting along, and each reason.

use enact_rebel::scaling::Concurrency::{self, InLine, Never, Together, Turns, UnlessSame, WhileFar};
use enact_rebel::scaling::Does::{self, *};

/// One class, of which each event shows one thing.
pub(crate) const CONTRACT: &str = "
class Item
  number: Integer @identity
  initial none
    on Make(): made
  made
    on Poke(count: Integer)
      pre: count >= 0

class Other
  number: Integer @identity
  initial none
    on Make(): made
  made
    on Ask(thing: Thing)
      sync: not thing.Cap(1)

class Thing
  label: String @identity
  pieces: Integer = 0
  most: Integer = 5
  price: Integer = 0
  status: String = \"new\"
  note: String = \"\"
  sealed: Boolean = false
  tags: Set[String] = {}
  prices: Map[String, Integer] = {}
  notes: List[String] = []
  item: Item
  next: Item? = none

  invariant \"not below zero\": pieces >= 0

  initial blank
    on Begin(with_: Item): used
      post: this.item = with_
  used
    on Put(count: Integer)
      pre: count > 0
      post: this.pieces += count
    on Take(count: Integer)
      pre: count > 0, pieces - count >= 0
      post: this.pieces -= count
    on Move(count: Integer)
      pre: pieces + count <= 3
      post: this.pieces += count
    on Cap(to: Integer)
      post: this.most = to
    on Fit(count: Integer)
      pre: pieces + count <= most
      post: this.price += count
    on Rate(to: Integer)
      post: this.price = to
    on Reset()
      post: this.price = 0
    on Restart()
      post: this.price = 1
    on Double()
      post: this.price = price * 2
    on Scale(by_: Integer)
      post: this.price = price * by_
    on Copy()
      post: this.price = most
    on Name(text: String)
      post: this.status = text
    on Expect(text: String)
      pre: status == text
    on Differ(text: String)
      pre: status != text
      post: this.note = \"\"
    on Seal()
      post: this.sealed = true
    on Unseal()
      post: this.sealed = false
    on Open()
      pre: sealed
    on Tag(word: String)
      post: this.tags += word
    on Untag(word: String)
      post: this.tags -= word
    on Fresh(word: String)
      pre: not (word in tags)
      post: this.tags += word
    on TagA()
      post: this.tags += \"a\"
    on UntagB()
      post: this.tags -= \"b\"
    on UntagA()
      post: this.tags -= \"a\"
    on TagAll(words: Set[String])
      post: this.tags += words
    on Small(limit: Integer)
      pre: tags.size <= limit
      post: this.note = \"small\"
    on Price(word: String, at_: Integer)
      post: this.prices[word] = at_
    on Unknown(word: String)
      pre: not (word in prices)
      post: this.note = \"unknown\"
    on Note(text: String)
      post: this.notes += text
    on Either(count: Integer)
      pre: pieces > count or sealed
      post: this.most += 1
    on Send()
      sync: item.Poke(pieces)
    on Tell() -> Integer
      return: pieces
    on Sum(count: Integer) -> Integer
      post: this.pieces += count
      return: count
    on Rename(text: String)
      post:
        if text == \"\": this.pieces += 1
        else: this.pieces += 2
    on Raise(by_: Integer)
      post:
        if by_ > 1: this.price = 7
        else: this.price += 1
    on Lock(): locked
    on Close(): closed
      pre: pieces == 0
    on Halve() -> Boolean
      variant even
        pre: pieces > 1
        post: this.pieces -= 1
        return: true
      variant odd
        return: false
    on Offer(to: Item)
      post: this.next = to
    on Follow()
      post: this.item = next!
    on Park(): parked
    on Home(): used
  locked
    on Park(): stored
    on Unlock(): used
    on Home(): used
    on Put(count: Integer)
      pre: count > 0
      post: this.pieces += count
  parked
    on Park(): parked
  stored
    on Park(): stored
  final closed
";

/// A class with a timer.
pub(crate) const TIMED: &str = "
class Thing
  label: String @identity
  pieces: Integer = 0
  until: Timestamp? = none
  initial blank
    on Begin(): used
  used
    on Put(count: Integer)
      post: this.pieces += count
    on Wait(time: Timestamp)
      post: this.until = time
    internal on Stop(): stopped
    after until: Stop
  final stopped
";

/// A class of which one event changes two fields that are compared as a sum.
pub(crate) const SUM: &str = "
class Thing
  label: String @identity
  free: Integer = 0
  held: Integer = 0
  invariant free + held <= 9
  initial blank
    on Begin(): used
  used
    on Hold(count: Integer)
      post: this.free -= count, this.held += count
    on Put(count: Integer)
      post: this.free += count
";

/// The event in progress, the one that arrives, what becomes of them, and the weightiest reason: the place, and what each does there.
pub(crate) type Row = (&'static str, &'static str, Concurrency, Option<(&'static str, Does, Does)>);

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    ("Lock",     "Take",     Turns,      Some(("its state", Moves, Stays))),
    ("Close",    "Put",      Turns,      Some(("its state", Moves, Stays))),
    ("Put",      "Lock",     InLine,     Some(("its state", Stays, Moves))),
    ("Lock",     "Lock",     Turns,      Some(("its state", Moves, Moves))),
    ("Unlock",   "Lock",     Turns,      Some(("its state", Moves, Moves))),
    ("Put",      "Begin",    Never,      None),
    ("Home",     "Home",     Together,   None),
    ("Home",     "Put",      Turns,      Some(("its state", Moves, Stays))),
    ("Park",     "Park",     InLine,     Some(("its state", Moves, Moves))),
    // Numbers that are added to.
    ("Put",      "Put",      Together,   None),
    ("Take",     "Put",      Together,   None),
    ("Put",      "Take",     WhileFar,   Some(("pieces", Adds, Compares))),
    ("Take",     "Take",     WhileFar,   Some(("pieces", Adds, Compares))),
    ("Move",     "Move",     WhileFar,   Some(("pieces", Adds, Compares))),
    ("Rename",   "Put",      Together,   None),
    ("Sum",      "Sum",      WhileFar,   Some(("pieces", Adds, Compares))),
    ("Put",      "Rate",     Together,   None),
    ("Put",      "Fit",      WhileFar,   Some(("pieces", Adds, Compares))),
    ("Cap",      "Fit",      WhileFar,   Some(("most", AssignsArguments, Compares))),
    ("Fit",      "Cap",      WhileFar,   Some(("most", Compares, AssignsArguments))),
    ("Fit",      "Take",     Together,   None),
    // Numbers and contents that are replaced.
    ("Rate",     "Rate",     InLine,     Some(("price", AssignsArguments, AssignsArguments))),
    ("Reset",    "Reset",    Together,   None),
    ("Reset",    "Restart",  InLine,     Some(("price", Assigns, Assigns))),
    ("Reset",    "Rate",     InLine,     Some(("price", Assigns, AssignsArguments))),
    ("Fit",      "Rate",     InLine,     Some(("price", Adds, AssignsArguments))),
    ("Raise",    "Fit",      InLine,     Some(("price", Assigns, Adds))),
    ("Double",   "Double",   InLine,     Some(("price", Computes, Computes))),
    ("Double",   "Scale",    InLine,     Some(("price", Computes, Computes))),
    ("Fit",      "Double",   InLine,     Some(("price", Adds, Computes))),
    ("Copy",     "Copy",     InLine,     Some(("price", ComputesOfOthers, ComputesOfOthers))),
    ("Cap",      "Copy",     InLine,     Some(("most", AssignsArguments, Uses))),
    ("Copy",     "Cap",      InLine,     Some(("most", Uses, AssignsArguments))),
    ("Name",     "Name",     InLine,     Some(("status", AssignsArguments, AssignsArguments))),
    ("Name",     "Expect",   Turns,      Some(("status", AssignsArguments, Needs))),
    ("Expect",   "Name",     InLine,     Some(("status", Needs, AssignsArguments))),
    ("Expect",   "Expect",   Together,   None),
    ("Seal",     "Seal",     Together,   None),
    ("Seal",     "Unseal",   InLine,     Some(("sealed", Assigns, Assigns))),
    ("Unseal",   "Open",     Turns,      Some(("sealed", Assigns, Needs))),
    ("Open",     "Unseal",   InLine,     Some(("sealed", Needs, Assigns))),
    // Elements of sets.
    ("Tag",      "Tag",      Together,   None),
    ("Tag",      "Untag",    UnlessSame, Some(("word in tags", Inserts, Removes))),
    ("Fresh",    "Fresh",    UnlessSame, Some(("word in tags", Inserts, Needs))),
    ("TagA",  "TagA",  Together,   None),
    ("TagA",  "UntagB", Together,   None),
    ("TagA",  "UntagA", InLine,    Some(("\"a\" in tags", Inserts, Removes))),
    ("TagA",  "Untag",    UnlessSame, Some(("word in tags", Inserts, Removes))),
    ("TagAll",   "Tag",      InLine,     Some(("word in tags", Alters, Inserts))),
    ("TagAll",   "Untag",    InLine,     Some(("word in tags", Alters, Removes))),
    ("Tag",      "Small",    WhileFar,   Some(("tags.size", Inserts, Compares))),
    // What needs the size is not exact, and guards the whole set.
    ("Small",    "Tag",      InLine,     Some(("word in tags", Compares, Inserts))),
    ("Small",    "Small",    Together,   None),
    // Maps and lists are one place.
    ("Price",    "Price",    InLine,     Some(("prices", Alters, Alters))),
    ("Price",    "Unknown",  UnlessSame, Some(("prices[word]", Alters, Needs))),
    ("Unknown",  "Price",    UnlessSame, Some(("prices[word]", Needs, Alters))),
    ("Note",     "Note",     InLine,     Some(("notes", Alters, Alters))),
    // What is no threshold.
    ("Put",      "Either",   Turns,      Some(("pieces", Adds, Needs))),
    ("Either",   "Put",      InLine,     Some(("pieces", Needs, Adds))),
    ("Differ",   "Name",     InLine,     Some(("status", Needs, AssignsArguments))),
    ("Put",      "Send",     Turns,      Some(("pieces", Adds, Calls))),
    ("Send",     "Put",      InLine,     Some(("pieces", Calls, Adds))),
    ("Put",      "Tell",     Turns,      Some(("pieces", Adds, Returns))),
    ("Tell",     "Put",      InLine,     Some(("pieces", Returns, Adds))),
    // An effect that may have no value.
    ("Offer",    "Follow",   Turns,      Some(("next", AssignsArguments, Needs))),
    ("Put",      "Halve",    Turns,      Some(("pieces", Adds, Needs))),
];
