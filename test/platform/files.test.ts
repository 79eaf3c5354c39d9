import test from 'ava'
import type { TestUser } from '../kit/actors/api.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { configOf, type Program } from '../kit/programs.ts'

// Two hosts on one engine; each has room for what is deployed here.
const started = testPlatform({ hosts: { a: { HOST_MEMORY_MB: '2048' }, b: { HOST_MEMORY_MB: '2048' } } })

/** Serves its page from a file, writes into it, lays links, and uses a module that was installed. */
const program: Program = {
  main: 'index.js',
  files: {
    'index.js': `const fs = require('node:fs')
const acts = {
  '/append': () => fs.appendFileSync('page.txt', '!'),
  '/links': () => { fs.symlinkSync('/etc/passwd', 'outside'); fs.symlinkSync('..', 'up'); fs.symlinkSync('/proc/self/root', 'root') },
  '/module': () => require('greeting'),
}
require('node:http').createServer((request, answer) => {
  try { answer.end(String(acts[request.url]?.() ?? fs.readFileSync('page.txt', 'utf8'))) }
  catch (error) { answer.end(String(error)) }
}).listen(process.env.PORT)\n`,
    'page.txt': 'as deployed',
    'package.json': '{"dependencies":{"greeting":"file:./greeting"}}',
    'greeting/package.json': '{"name":"greeting","version":"1.0.0"}',
    'greeting/index.js': `module.exports = 'installed'`,
  },
}

async function deployed() {
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, program)
  return { platform, ana, app, ...filesOf(platform.api.as, ana, app.id) }
}

function filesOf(as: Awaited<typeof started>['api']['as'], user: TestUser, appId: string) {
  const path = `/v2/apps/${appId}/files`
  const send = (method: string) => (body: object) => as(user).request(method, path, { body: JSON.stringify(body) })
  return {
    names: async (folder = '/') =>
      (await as(user).get(`${path}?path=${folder}`)).body.response.map((entry: { name: string }) => entry.name),
    async text(file: string) {
      const { status, body } = await as(user).get(`${path}/content?encoding=base64&path=${file}`)
      return status === 200 ? Buffer.from(body.response.data, 'base64').toString() : body.code
    },
    put: send('PUT'),
    patch: send('PATCH'),
    remove: send('DELETE'),
  }
}

test.serial('an application sees each change immediately, owns what was written, and leads nowhere', async t => {
  t.timeout(120_000)
  const { platform, app, names, text, put, patch, remove } = await deployed()
  const page = async (path = '/') => (await platform.page(app.domain, { path })).body
  t.is(await page(), 'as deployed')
  t.is((await put({ path: 'page.txt', content: 'written' })).status, 200)
  t.is(await page(), 'written')
  await page('/append')
  t.is(await text('page.txt'), 'written!', 'the program may write what the platform wrote')
  t.is((await put({ path: 'new/folder/file', content: 'x' })).status, 200)
  t.is((await patch({ path: 'page.txt', to: 'new/page.txt' })).status, 200)
  t.regex(await page(), /ENOENT/)
  t.is((await patch({ path: 'new/page.txt', to: 'page.txt' })).status, 200)
  t.is(await page(), 'written!')

  await page('/links')
  t.true((await names()).includes('outside'))
  for (const path of ['outside', 'up', 'up/files/page.txt', 'root/etc/passwd'])
    t.is(await text(path), 'FILE_NOT_FOUND', path)
  t.is((await put({ path: 'up/escaped', content: 'x' })).body.code, 'INVALID_PATH')
  for (const path of ['outside', 'up', 'root', 'new']) t.is((await remove({ path })).status, 200, path)
  t.is(await page(), 'written!')

  t.is((await remove({ path: 'node_modules' })).body.code, 'DELETE_FAILED')
  t.is(await page('/module'), 'installed')
})

test.serial(
  'a new configuration file is applied and answered with its outcome; one that fails changes nothing',
  async t => {
    t.timeout(120_000)
    const { platform, ana, app, text, put } = await deployed()
    const row = (await platform.row(app.id))!
    const config = (values: Record<string, string>) =>
      Object.entries(configOf(program, { SUBDOMAIN: row.subdomain, ...values }))
        .map(([name, value]) => `${name}=${value}`)
        .join('\n')
    const about = async () => (await platform.api.as(ana).get(`/v2/apps/${app.id}`)).body.response.desc
    const good = config({ DESCRIPTION: 'rewritten', MEMORY: '768' })
    t.is((await put({ path: 'berth.app', content: good })).status, 200)
    t.is(await about(), 'rewritten')
    t.like(await platform.row(app.id), { ram_mb: 768, status: 'running' })
    t.is(await text('berth.app'), good)
    t.is((await platform.page(app.domain)).body, 'as deployed')

    const bad = await put({ path: 'berth.app', content: config({ DESCRIPTION: 'broken', START: 'exit 3' }) })
    t.like(bad, { status: 500, body: { code: 'SAVE_FAILED' } })
    t.regex(bad.body.message, /HEALTH_CHECK_FAILED/)
    t.is(await about(), 'rewritten')
    t.is(await text('berth.app'), good)
    t.is((await platform.page(app.domain)).body, 'as deployed')
  },
)

test.serial('files of applications on two hosts are each served by their own host', async t => {
  t.timeout(120_000)
  const [one, two] = [await deployed(), await deployed()]
  const { platform } = one
  const hosts = await Promise.all([one, two].map(async ({ app }) => (await platform.row(app.id))?.host_id))
  t.deepEqual([...new Set(hosts)].sort(), [platform.hostId('a'), platform.hostId('b')])
  for (const [{ app, put, text }, content] of [
    [one, 'on one host'],
    [two, 'on another'],
  ] as const) {
    t.is((await put({ path: 'page.txt', content })).status, 200)
    t.is((await platform.page(app.domain)).body, content)
    t.is(await text('page.txt'), content)
  }
  t.is(await one.text('page.txt'), 'on one host')
})
