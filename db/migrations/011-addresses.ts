import type { Knex } from 'knex'

/** Who signs in is found by the address in any case, and without reading every account; new ones are kept in lower case. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    update users u set email = lower(email)
     where email <> lower(email) and not exists (select from users o where o.id <> u.id and lower(o.email) = lower(u.email));
    create index users_by_address on users (lower(email));
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
