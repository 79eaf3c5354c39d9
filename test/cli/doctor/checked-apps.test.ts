import test from 'ava'
import { checkedAppsFinding } from '../../../cli/doctor/checked-apps.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('the doctor reports how many checked applications are unhealthy and names three, and nothing where none is checked', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1', { memoryMb: 100_000 })
  const ana = await make.user()
  const ids: string[] = []
  for (let n = 0; n < 6; n++) ids.push((await make.app(ana.id, { memoryMb: 512 })).app.id)
  await db('apps').update({ status: 'running' })
  t.deepEqual(await checkedAppsFinding(db), [])
  await db('apps').whereIn('id', ids.slice(1)).update({ health_path: '/ready' })
  const name = 'health checks'
  t.deepEqual(await checkedAppsFinding(db), [{ name, state: '0 of 5 checked applications unhealthy' }])
  const unhealthy = ids.slice(2).sort()
  await db('apps')
    .whereIn('id', unhealthy)
    .update({ health: JSON.stringify({ status: 'unhealthy' }) })
  const named = unhealthy.slice(0, 3).join(', ')
  t.deepEqual(await checkedAppsFinding(db), [
    { name, state: `4 of 5 checked applications unhealthy (${named} and others)` },
  ])
})
