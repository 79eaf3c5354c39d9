import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { ownFolder } from '../../../kit/folders.ts'
import { appZip } from '../../../kit/zips.ts'

const api = testApi()

test('the commits of the README work when pasted', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const folder = ownFolder(t)
  mkdirSync(join(folder, 'my-app'))
  writeFileSync(join(folder, 'my-app.zip'), appZip({}))
  writeFileSync(join(folder, 'my-app/server.js'), '')
  const [, section = ''] = readFileSync('README.md', 'utf8').split('\n### A new version\n')
  const pasted = [...section.split('\n### ')[0]!.matchAll(/^\$ (curl .*)$/gm)].map(([, line]) =>
    line!.replace('http://127.0.0.1:4000', api().url).replace(/[0-9a-f]{24}/, app.id),
  )
  t.is(pasted.length, 3)
  const answers = []
  for (const line of pasted) {
    const env = { PATH: process.env.PATH, KEY: ana.key }
    answers.push(
      (await promisify(execFile)('sh', ['-c', `${line} --silent --show-error`], { cwd: folder, env })).stdout,
    )
  }
  t.deepEqual(answers.slice(0, 2), ['{"status":"success"}', '{"status":"success"}'])
  t.is(JSON.parse(answers[2]!).response[0][0].source, 'upload')
  const rows = await api().db('deployments').where({ app_id: app.id }).whereNotNull('path').orderBy('created_at')
  t.deepEqual(
    rows.map(row => [row.path, row.filename]),
    [
      ['', null],
      ['', 'server.js'],
    ],
  )
})
