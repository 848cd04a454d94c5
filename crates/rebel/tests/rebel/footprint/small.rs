//! Classes with so few instances that all of them are tried.

/// Numbers, elements and entries.
pub(crate) const PARTS: &str = "
class Small
  n: Integer = 0
  s: Set[Integer] = {}
  e: Map[Integer, Integer] = {}
  invariant \"few\": e.size < 2 or n >= 0
  invariant n <= 2
  initial none_
    on Begin(k: Integer): open
      post: this.n = k
  open
    on Add(k: Integer)
      post: this.n += k
    on Take(k: Integer)
      pre: n - k >= 0
      post: this.n -= k
    on Between(k: Integer)
      pre: n in k .. 1
    on Unlike(k: Integer)
      pre: n != k
      post: this.s += k
    on Either(k: Integer)
      pre: n > k or k in s
      post: this.s -= k
    on Set(k: Integer)
      post: this.n = k
    on Mirror(k: Integer)
      post: this.n = k - n
    on Twice(k: Integer)
      post: this.n = n + k + n
    on Match(k: Integer)
      post: this.n += min(n, k)
    on Bend(k: Integer)
      pre: n * n - n >= 2 * k
    on Name(k: Integer)
      let: enough = n > k
      pre: enough
    on Put(k: Integer)
      post: this.s += k
    on Drop(k: Integer)
      post: this.s -= k
    on Swap(k: Integer)
      post: this.s = s + k - (1 - k)
    on Fill(k: Integer)
      pre: s.size + k < 3
      post: this.e[k] = s.size
    on Grow(k: Integer)
      post: this.e[k] += 1
    on Move(k: Integer)
      post: this.e[k] = e[1 - k]
    on Follow(k: Integer)
      pre: n >= 0
      post: this.e[n] = k
    on Look(k: Integer) -> Boolean
      pre: k in e
      return: n in s
    on Forget(k: Integer)
      post: this.e -= k
    on Count(k: Integer)
      pre: e.size >= k
    on Close(k: Integer): shut
      let: most = n + k
      pre: most >= 0
    on Tell(k: Integer) -> Integer
      post: this.n += 1
      return: this.n + k
    on Answer(k: Integer) -> Integer
      post: this.n = k
      return: this.n
    on Choose(k: Integer)
      variant high: shut
        pre: n >= k
      variant low
        pre: n < 0
        post: this.n = 0
  shut
    on Add(k: Integer)
      post: this.n = k
";

/// Fields that are whole, amounts, and other instances.
pub(crate) const WHOLES: &str = "
record Pair
  a: Boolean
  b: Boolean
class Small
  m: Money = EUR 0.00
  o: Integer? = none
  r: Pair = Pair(a: false, b: false)
  l: List[Boolean] = []
  peer: Small
  until: Timestamp? = none
  initial none_
    on Begin(other: Small, x: Money): open
      post: this.m = x, this.peer = other
  open
    on Pay(other: Small, x: Money)
      pre: m - x >= EUR 0.00
      post: this.m -= x
      sync: other.Earn(other, x)
    on Earn(other: Small, x: Money)
      post: this.m = x + m
    on Keep(other: Small, x: Money)
      pre: m == x, other is open
      post: this.o = none
    on Fresh(other: Small, x: Money)
      pre: o! > 0
      post: this.o = (o ?? 1) - 1
    on Half(other: Small, x: Money)
      post: this.r.a = x > 0
    on Whole(other: Small, x: Money)
      post: this.r = Pair(a: false, b: x > 0)
    on Note(other: Small, x: Money)
      post: this.l += x > 0
    on Turn(other: Small, x: Money)
      pre: peer != other
      post: this.peer = other
      sync: if peer is open: peer.Earn(other, x)
    on Wait(other: Small, x: Money): waiting
      post: this.until = if o == none then none else now + 1 hour
    on Rest(other: Small, x: Money): waiting
    on Ask(other: Small, x: Money)
      pre: can peer.Keep(other, x), other.m < x
    on Dare(other: Small, x: Money)
      sync:
        not peer.Earn(other, x)
        this.Earn(other, x)
  waiting
    on Extend(other: Small, x: Money)
      post: this.o = 1
    on Earn(other: Small, x: Money)
    on Expire(): open
    after if o == none then none else until! + 1 hour: Expire
";

/// Instances that refer to each other, and change that on the way.
pub(crate) const LINKS: &str = "
class Link
  next: Link
  hits: Integer = 0
  paid: Money = EUR 0.00
  initial new_
    on Make(to: Link): there
      post: this.next = to
  there
    on Hit()
      post: this.hits += 1
    on Pass()
      sync: next.Hit()
    on Aim(to: Link)
      post: this.next = to
    on Turn(to: Link)
      post: this.next = to
      sync: this.Pass()
    on Direct(of: Link, to: Link)
      sync:
        of.Aim(to)
        of.Pass()
    on Spread(to: Link)
      sync:
        next.Hit()
        next.Aim(to)
    on All(ones: Set[Link], others: Set[Link], to: Link)
      sync: for one in (if hits > 0 then ones else others): one.Spread(to)
    on Pay(x: Money)
      post: this.paid += x
    on Try(x: Money, to: Link)
      pre: can to.Pay(x)
    on Weigh(x: Money, ones: Set[Link])
      pre: sum(one in ones: one.paid, paid) > x
";
