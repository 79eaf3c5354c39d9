import { randomBytes } from 'node:crypto'
import test from 'ava'
import { chores, tidyRows } from '../../db/housekeeping.ts'
import { newId } from '../../policy/ids.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const hour = 3600_000
const day = 24 * hour
const ago = (ms: number) => new Date(Date.now() - ms)

type Row = Record<string, unknown>

interface Case {
  table: string
  /** One column that tells rows apart. */
  by: string
  row(userId: string, at: Date): Row
  /** How long after that moment a row is kept, in milliseconds. */
  keptMs: number
}

/** Rows that are over, and how long they are kept then (contract 1.20, 6.9 and 6.24; policy/retention.ts). */
const cases: Record<string, Case> = {
  sessions: {
    table: 'sessions',
    by: 'id',
    row: (user_id, expires_at) => ({ id: newId(), user_id, expires_at }),
    keptMs: day,
  },
  'sign-ins': {
    table: 'sign_ins',
    by: 'id',
    row: (user_id, expires_at) => ({ id: newId(), user_id, expires_at }),
    keptMs: day,
  },
  authorizations: {
    table: 'authorizations',
    by: 'display',
    row: (_, expires_at) => ({
      code_hash: randomBytes(32),
      display: newId(),
      client: 'cli',
      redirect_uri: 'http://127.0.0.1/',
      scopes: ['apps:read'],
      challenge: 'c',
      expires_at,
    }),
    keptMs: day,
  },
  'audit record': {
    table: 'audit',
    by: 'action',
    row: (actor, at) => ({ account_id: actor, actor, action: newId(), result: 'success', at }),
    keptMs: 90 * day,
  },
  'steps to a lower plan': {
    table: 'downgrades',
    by: 'id',
    row: (user_id, ended_at) => ({
      ...{ id: newId(), user_id, plan_from: 'pro-16', plan_to: 'pro-12', state: 'applied' },
      ...{ expires_at: ended_at, ended_at },
    }),
    keptMs: 30 * day,
  },
  'upload tokens': {
    table: 'upload_tokens',
    by: 'id',
    row: (owner_id, expires_at) => ({
      ...{ id: newId(), owner_id, credential_id: 'c', hash: randomBytes(32), pins: '{}', max_uses: 1, expires_at },
    }),
    keptMs: day,
  },
  'idempotency keys': {
    table: 'idempotency_keys',
    by: 'key',
    row: (user_id, created_at) => ({ user_id, key: newId(), route: 'POST /', fingerprint: 'f', created_at }),
    keptMs: day,
  },
  'webhook deliveries': {
    table: 'webhook_deliveries',
    by: 'id',
    row: (app_id, received_at) => ({
      ...{ id: newId(), app_id, source: 'app', delivery_id: newId(), provider: 'github', event: 'push' },
      ...{ verdict: 'ignored', reply_status: 202, reply_text: 'ignored: ping', received_at },
    }),
    keptMs: 7 * day,
  },
  'blob receipts': {
    table: 'blob_receipts',
    by: 'id',
    row: (_, ended_at) => ({ id: newId(), kind: 'sweep', began_at: ended_at, ended_at }),
    keptMs: day,
  },
}

for (const [chore, { table, by, row, keptMs }] of Object.entries(cases))
  test.serial(`${chore} that are over are kept for ${keptMs / hour} hours and then removed`, async t => {
    const { db } = await database
    const { id } = await rows(db).user()
    const [young, old] = [row(id, ago(keptMs - hour)), row(id, ago(keptMs + hour))]
    await db(table).insert([young, old])
    const failed: unknown[] = []
    const retention = { historyDays: 180, deploymentLogDays: 30, archiveDays: 7, pointInTimeDays: 7 }
    await tidyRows(db, chores(retention), (name, error) => failed.push([name, error]))
    t.deepEqual(failed, [])
    const left = await db(table)
      .whereIn(by, [young[by] as string, old[by] as string])
      .pluck(by)
    t.deepEqual(left, [young[by]])
  })
