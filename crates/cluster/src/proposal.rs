//! How one contract follows another while nodes run.
//!
//! # The nodes in charge
//! Shards are owned by nodes with the contract that the settings name. A node with another one waits, if it was told to adopt its own: it
//! serves nothing. When no node of the present contract is alive any more, those that wait *propose* theirs: from then on they are in
//! charge, and get the shards.
//!
//! # All shards or none
//! Under a proposal nothing is served and nothing is written. Each shard is opened, which keeps earlier writers out, and examined. When all of
//! them allow the contract, one write to the settings makes it that of all, and only then does a shard adopt it. If one does not, one
//! write takes the proposal back: the entities are what they were, and nodes of the present contract serve them again.
//!
//! A proposal whose nodes are all gone is taken back, too, or proposed anew. Each of these is decided by the revision of the settings: of two nodes
//! that decide at once, one has its way.

use crate::view::{Refused, Settings, View};

/// How a contract stands to that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is that of all.
    Agreed,
    /// It is to be that of all; the settings have this revision.
    Proposed { proposal: u64 },
    /// It is neither.
    Other,
}

impl View {
    pub(crate) fn stage(&self, contract: &str) -> Stage {
        match self.settings() {
            Some(settings) if settings.value.contract == contract => Stage::Agreed,
            Some(settings) if settings.value.proposed.as_deref() == Some(contract) => {
                Stage::Proposed { proposal: settings.revision }
            }
            _ => Stage::Other,
        }
    }
}

/// A node that looks at what all have in common.
#[derive(Debug)]
pub(crate) struct Voter<'a> {
    /// Its contract.
    pub(crate) contract: &'a str,
    /// Whether its contract may become that of all.
    pub(crate) adopts: bool,
    /// Why a shard does not allow its contract, if it has found one.
    pub(crate) refused: Option<&'a str>,
    /// Whether the nodes of the present contract have stopped, or were not heard of for so long that they will not come back.
    pub(crate) are_gone: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// To write the settings in place of those with this revision.
    Write(Settings, u64),
    /// To take nothing more.
    Fail(String),
}

impl Voter<'_> {
    pub(crate) fn step(&self, view: &View) -> Step {
        let Some(settings) = view.settings() else { return Step::Nothing };
        let write = |value| Step::Write(value, settings.revision);
        let Settings { contract: present, proposed, refused, .. } = &settings.value;
        let own = Some(self.contract.to_owned());
        match view.stage(self.contract) {
            Stage::Agreed => match proposed {
                Some(proposed) if !view.has_node_of(proposed) => {
                    write(Settings { proposed: None, ..settings.value.clone() })
                }
                _ => Step::Nothing,
            },
            Stage::Proposed { .. } => match self.refused {
                Some(why) => {
                    let refused = Refused { contract: self.contract.to_owned(), why: why.to_owned() };
                    write(Settings { proposed: None, refused: Some(refused), ..settings.value.clone() })
                }
                None if view.is_examined() => {
                    let contract = self.contract.to_owned();
                    write(Settings { contract, proposed: None, refused: None, ..settings.value.clone() })
                }
                None => Step::Nothing,
            },
            Stage::Other => match refused {
                Some(refused) if refused.contract == self.contract => Step::Fail(refused.why.clone()),
                _ if !self.adopts => {
                    Step::Fail("another contract was adopted while this node was not heard of".to_owned())
                }
                _ if self.are_gone
                    && ![Some(present), proposed.as_ref()].into_iter().flatten().any(|of| view.has_node_of(of)) =>
                {
                    write(Settings { proposed: own, ..settings.value.clone() })
                }
                _ => Step::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{EXAMINED, Examined, Lease, NODE, SETTINGS};

    fn json<T: serde::Serialize>(value: &T) -> Vec<u8> {
        serde_json::to_vec(value).expect("JSON")
    }

    fn settings(contract: &str, proposed: Option<&str>, refused: Option<(&str, &str)>) -> Settings {
        let refused = refused.map(|(contract, why)| Refused { contract: contract.to_owned(), why: why.to_owned() });
        Settings {
            shards: 2,
            contract: contract.to_owned(),
            proposed: proposed.map(str::to_owned),
            refused,
            database: None,
            is_restoring: false,
        }
    }

    /// Settings with revision 7, and a node of each of `contracts`.
    fn view(settings: &Settings, contracts: &[&str]) -> View {
        let mut view = View::default();
        view.apply(SETTINGS, Some(&json(settings)), 7);
        for contract in contracts {
            let (address, version, contract) = (String::new(), String::new(), (*contract).to_owned());
            let lease = Lease {
                incarnation: 1,
                address,
                version,
                contract: contract.clone(),
                is_leaving: false,
                is_cut_off: false,
            };
            view.apply(&format!("{NODE}{contract}"), Some(&json(&lease)), 1);
        }
        view
    }

    fn examined(mut view: View) -> View {
        for shard in 0..2 {
            view.apply(&format!("{EXAMINED}{shard}"), Some(&json(&Examined { proposal: 7 })), 8);
        }
        view
    }

    fn waiting(contract: &str) -> Voter<'_> {
        Voter { contract, adopts: true, refused: None, are_gone: true }
    }

    #[test]
    fn nothing_is_done_without_settings() {
        assert_eq!(waiting("b").step(&View::default()), Step::Nothing);
    }

    #[test]
    fn a_node_of_another_contract_waits_for_the_last_one_of_the_present_and_then_proposes_its_own() {
        let present = settings("a", None, None);
        assert_eq!(waiting("b").step(&view(&present, &["a", "b"])), Step::Nothing);
        let proposed = Step::Write(settings("a", Some("b"), None), 7);
        assert_eq!(waiting("b").step(&view(&present, &["b"])), proposed);
        let heard_of = Voter { are_gone: false, ..waiting("b") };
        assert_eq!(heard_of.step(&view(&present, &["b"])), Step::Nothing);
        let of_c = settings("a", Some("c"), None);
        assert_eq!(waiting("b").step(&view(&of_c, &["b", "c"])), Step::Nothing, "another one is proposed");
        assert_eq!(waiting("b").step(&view(&of_c, &["b"])), proposed, "and its nodes are gone");
    }

    #[test]
    fn a_node_that_may_not_adopt_its_contract_takes_nothing_more_when_there_is_another_one() {
        let cautious = Voter { adopts: false, ..waiting("a") };
        assert!(matches!(cautious.step(&view(&settings("b", None, None), &["a"])), Step::Fail(_)));
        let proposed = view(&settings("a", Some("b"), None), &["a", "b"]);
        assert_eq!(cautious.step(&proposed), Step::Nothing, "it may be refused");
    }

    #[test]
    fn what_is_proposed_becomes_the_contract_of_all_when_all_shards_allow_it() {
        let proposed = view(&settings("a", Some("b"), Some(("c", "no"))), &["b"]);
        assert_eq!(waiting("b").step(&proposed), Step::Nothing);
        assert_eq!(waiting("b").step(&examined(proposed)), Step::Write(settings("b", None, None), 7));
    }

    #[test]
    fn what_a_shard_does_not_allow_is_taken_back_and_its_nodes_take_nothing_more() {
        let proposed = view(&settings("a", Some("b"), None), &["b"]);
        let found = Voter { refused: Some("no"), ..waiting("b") };
        let taken_back = settings("a", None, Some(("b", "no")));
        assert_eq!(found.step(&examined(proposed)), Step::Write(taken_back.clone(), 7));
        assert_eq!(waiting("b").step(&view(&taken_back, &["b"])), Step::Fail("no".to_owned()));
        assert_eq!(waiting("a").step(&view(&taken_back, &["a", "b"])), Step::Nothing);
    }

    #[test]
    fn a_proposal_whose_nodes_are_gone_is_taken_back_by_those_of_the_present_contract() {
        let proposed = settings("a", Some("b"), None);
        assert_eq!(waiting("a").step(&view(&proposed, &["a", "b"])), Step::Nothing);
        assert_eq!(waiting("a").step(&view(&proposed, &["a"])), Step::Write(settings("a", None, None), 7));
    }
}
