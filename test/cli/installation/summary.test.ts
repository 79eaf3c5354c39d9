import test from 'ava'
import { openDataPlace, openInstallation } from '../../../cli/installation/installation.ts'
import { summary } from '../../../cli/installation/summary.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('a summary notes what is wrong with the network of builds, and nothing about images that are not there yet', async t => {
  const { db, url } = await database
  const env = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, HOST_ID: 'noted' }
  const started = await openInstallation(env, openDataPlace(env))
  await rows(db).host(started.config.host.id)
  const fact = (state: string) => ({ state, remedy: 'do this' })
  const builds = JSON.stringify({ images: fact('NOT PREPARED'), proxy: fact('NOT USED') })
  await db('hosts').where({ id: started.config.host.id }).update({ builds })
  const text = await summary(started, db, null)
  t.regex(text, /^ {2}Build proxy: NOT USED\. To do: do this$/m)
  t.notRegex(text, /NOT PREPARED/)
})
