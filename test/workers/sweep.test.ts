import { Readable } from 'node:stream'
import test from 'ava'
import { filesystemStore } from '../../activities/object-store.filesystem.ts'
import { removeThrowAway, throwAwayFolder } from '../../cli/test-postgres.ts'
import { removeApp } from '../../db/app-creation.ts'
import * as segments from '../../db/segments.ts'
import { testDatabase } from '../kit/database.ts'
import { rows } from '../kit/rows.ts'
import { sweep } from '../kit/sweep.ts'

const database = testDatabase()
const folder = throwAwayFolder()
test.after.always('remove the store', () => removeThrowAway(folder))

test.serial('bodies that nobody refers to are removed, and only those', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const stored = async () => {
    const id = await segments.draw(db)
    await store.put(id, Readable.from('archive'))
    return id
  }
  const make = rows(db)
  await make.host('h1')
  const user = await make.user()
  const [forgotten, fresh, used, freed] = [await stored(), await stored(), await stored(), await stored()]
  await make.app(user.id, {}, { segmentId: used })
  const { app } = await make.app(user.id, {}, { segmentId: freed })
  await removeApp(db, app.id)
  const longAgo = new Date(Date.now() - 7200_000)
  await db('segments').where({ id: forgotten }).update({ drawn_at: longAgo })
  await db('segments').where({ id: freed }).update({ zero_since: longAgo })

  t.is(await sweep({ db, store }), 2)
  const left = async (id: string) => ({
    body: Boolean(await store.head(id)),
    row: Boolean(await db('segments').where({ id }).first()),
  })
  t.deepEqual(await left(forgotten), { body: false, row: false })
  t.deepEqual(await left(freed), { body: false, row: false })
  t.deepEqual(await left(fresh), { body: true, row: true })
  t.deepEqual(await left(used), { body: true, row: true })
})

test.serial('a segment that is being swept can no longer be attached', async t => {
  const { db } = await database
  const id = await segments.draw(db)
  t.true(await segments.condemn(db, id))
  t.false(await segments.attach(db, id, { size: 1, sha256: 'x' }))
})
