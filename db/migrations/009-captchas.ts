import type { Knex } from 'knex'

/** Captchas that were solved: each counts once, for one sign-in or one session, from the address that handed it in. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table captchas (
      answer_hash bytea primary key,    -- the row is what makes an answer count once
      address text not null,
      sign_in_id text references sign_ins on delete set null,
      session_id text references sessions on delete cascade,
      solved_at timestamptz not null default now()
    );
    create index captchas_sign_in on captchas (sign_in_id);
    create index captchas_session on captchas (session_id);
    create index captchas_end on captchas (solved_at) where session_id is null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
