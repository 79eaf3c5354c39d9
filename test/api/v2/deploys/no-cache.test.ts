import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { deployCommand } from '../../../../cli/deploy.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { operatorHere } from '../../../kit/actors/operator-command.ts'
import { ownFolder } from '../../../kit/folders.ts'
import { appZip, zipOf } from '../../../kit/zips.ts'

const api = testApi()

const newest = (appId: string) => api().db('deployments').where({ app_id: appId }).orderBy('release', 'desc').first()

test('a commit or creation with no_cache is stored as one that installs anew, and no other', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const commit = (query: string, headers = {}) => {
    const body = new FormData()
    body.append('file', new Blob([zipOf({ 'index.js': '1' })]), 'files.zip')
    return api().as(ana).post(`/v2/apps/${app.id}/commit${query}`, body, headers)
  }
  const cases = { '?no_cache=true': true, '?no_cache=false': false, '': false, '?path=src&no_cache=true': true }
  for (const [query, isClean] of Object.entries(cases)) {
    t.is((await commit(query)).status, 200, query)
    t.is((await newest(app.id)).no_cache, isClean, query)
  }
  for (const value of ['yes', '1', '', 'TRUE', 'true&no_cache=true'])
    t.is((await commit(`?no_cache=${value}`)).body.code, 'INVALID_PARAMETERS', value)

  const key = { 'idempotency-key': 'one' }
  t.is((await commit('', key)).status, 200)
  t.is((await commit('?no_cache=true', key)).body.code, 'IDEMPOTENCY_KEY_REUSED')
})

test.serial(
  'berth deploy --no-cache, as it is typed, creates or updates an application that installs anew, and without it none',
  async t => {
    const path = join(ownFolder(t), 'app.zip')
    writeFileSync(path, appZip({}))
    // It ends at once, as nothing runs the deployment here.
    const deploy = (key: string, ...flags: string[]) =>
      operatorHere([deployCommand], {}, 'deploy', path, '--url', api().url, '--key', key, '--wait', '0', ...flags)
    for (const [flags, isClean] of [
      [['--no-cache'], true],
      [[], false],
    ] as const) {
      const ben = await api().makeUser()
      await deploy(ben.key, ...flags)
      const created = await api().db('apps').where({ owner_id: ben.id }).first()
      t.is((await newest(created.id)).no_cache, isClean)
      const ana = await api().makeUser()
      const app = await api().makeApp(ana)
      await deploy(ana.key, '--app', app.id, ...flags)
      const committed = await newest(app.id)
      t.is(committed.release, 2)
      t.is(committed.no_cache, isClean)
    }
  },
)
