//! `enact token`: a new token, and the line by which a server knows it.

use enact_server::{Token, caller_from_outside};

use crate::args;
use crate::failure::Failure;

/// Standard output has the token and the line, and nothing else, for a script to take them.
pub(crate) fn run(args: &args::Token) -> Result<(), Failure> {
    let caller = caller_from_outside(&args.id, args.roles.iter().map(String::as_str)).map_err(Failure::Caller)?;
    let token = random()?;
    println!("{token}\n{}", token.line(&caller, args.until));
    eprintln!(
        "The first line is the token: give it to {}, it is shown only here and now. The second line is for the file of \
         `enact serve --tokens FILE`, which nobody but its owner may read (chmod 600 FILE); it is read at the start, once a minute, and on SIGHUP.",
        caller.id()
    );
    Ok(())
}

/// A new token.
pub(crate) fn random() -> Result<Token, Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Failure::Random)?;
    Ok(Token::from_random(random))
}
