import { randomBytes } from 'node:crypto'
import test from 'ava'
import { assignDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('a group has at most 64 applications: one more would not be served', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { id: owner_id } = await make.user()
  const { app } = await make.app(owner_id, { memoryMb: 256 })
  const row = await db('apps').where({ id: app.id }).first()
  const hostname = 'full.example.com'
  const assign = (id: string) => assignDomain(db, { app: { id, owner_id }, hostname, plans: defaultPlans })
  await assign(app.id)
  // Copies: no host has room for so many.
  const copy = async (custom_domain: string | null) => {
    const id = randomBytes(12).toString('hex')
    await db('apps').insert({ ...row, id, subdomain: `s-${id}`, custom_domain })
    return id
  }
  for (let n = 2; n <= 63; n++) await copy(hostname)
  await assign(await copy(null))
  const last = await copy(null)
  const refusal = { code: 'LOAD_BALANCER_LIMIT_REACHED', message: /At most 64 applications/ } as never
  await t.throwsAsync(assign(last), refusal)
  t.is((await db('apps').where({ id: last }).first()).custom_domain, null)
  await assign(app.id) // again, which adds none
})
