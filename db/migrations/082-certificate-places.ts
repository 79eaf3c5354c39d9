import type { Knex } from 'knex'

/** Certificates are found by their names. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create index certificates_hostname on certificates (hostname);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
