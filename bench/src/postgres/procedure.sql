-- Room for the next version of a balance on its own page, so that no index is touched.
DROP TABLE IF EXISTS account, transfer;
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0)) WITH (fillfactor = 50);
CREATE TABLE transfer (id bigint PRIMARY KEY, payer bigint NOT NULL, payee bigint NOT NULL, euros bigint NOT NULL);

-- A transfer, once. Rows are locked by the updates themselves, in order of keys, so that nobody waits in a circle; what locks nobody
-- comes before them. A payer without funds violates the check of its balance.
CREATE OR REPLACE FUNCTION book(transfer_id bigint, payer_id bigint, payee_id bigint, amount bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF amount <= 0 THEN
    RAISE check_violation USING MESSAGE = 'the amount must be more than zero';
  END IF;
  INSERT INTO transfer VALUES (transfer_id, payer_id, payee_id, amount);
  IF payer_id < payee_id THEN
    UPDATE account SET balance = balance - amount WHERE id = payer_id;
    IF NOT FOUND THEN RAISE no_data_found USING MESSAGE = 'there is no payer'; END IF;
    UPDATE account SET balance = balance + amount WHERE id = payee_id;
    IF NOT FOUND THEN RAISE no_data_found USING MESSAGE = 'there is no payee'; END IF;
  ELSE
    UPDATE account SET balance = balance + amount WHERE id = payee_id;
    IF NOT FOUND THEN RAISE no_data_found USING MESSAGE = 'there is no payee'; END IF;
    UPDATE account SET balance = balance - amount WHERE id = payer_id;
    IF NOT FOUND THEN RAISE no_data_found USING MESSAGE = 'there is no payer'; END IF;
  END IF;
END $$;
