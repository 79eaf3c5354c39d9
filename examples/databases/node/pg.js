import pg from 'pg'

const pool = new pg.Pool({
  connectionString: process.env.POSTGRES_URL,
  ssl: { ca: Buffer.from(process.env.POSTGRES_CERTIFICATE, 'base64').toString() },
})
// Without a listener, an idle connection that ends would end the program. The next query opens another.
pool.on('error', error => console.error(error.message))

export async function countVisit() {
  await pool.query('create table if not exists visits (at timestamptz not null default now())')
  await pool.query('insert into visits default values')
  const { rows } = await pool.query('select count(*)::int as visits from visits')
  return rows[0].visits
}

export const close = () => pool.end()
