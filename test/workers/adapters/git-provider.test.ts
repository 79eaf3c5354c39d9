import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { openGitProvider } from '../../../workers/adapters/git-provider.ts'
import { ownFolder } from '../../kit/folders.ts'
import { GitProviderServer } from '../../kit/git/git-provider.ts'

const provider = await GitProviderServer.start()
test.after.always(() => provider.stop())

const environment = (changes: Record<string, string> = {}) => ({
  GIT_PROVIDER_API_URL: `${provider.url}/api/`,
  GIT_PROVIDER_WEB_URL: provider.url,
  GIT_PROVIDER_APP_ID: provider.appId,
  GIT_PROVIDER_APP_SLUG: 'berth test/x',
  GIT_PROVIDER_PRIVATE_KEY: provider.pem,
  GIT_PROVIDER_WEBHOOK_SECRET: 'a secret',
  GIT_PROVIDER_CLIENT_ID: 'Iv1.x',
  GIT_PROVIDER_CLIENT_SECRET: provider.clientSecret,
  ...changes,
})

const open = (changes?: Record<string, string>) => openGitProvider(parseConfig(environment(changes), '/'))

test('without its settings there is no provider; incomplete ones end the start with the name of a missing one', async t => {
  t.is(await openGitProvider(parseConfig({}, '/')), null)
  t.is(await openGitProvider(parseConfig({ GIT_PROVIDER_APP_ID: '' }, '/')), null)
  for (const name of Object.keys(environment()))
    t.throws(() => parseConfig(environment({ [name]: '' }), '/'), { message: new RegExp(name) })
  t.throws(() => parseConfig(environment({ GIT_PROVIDER_WEBHOOK_SECRET: ' \n' }), '/'), { message: /WEBHOOK_SECRET/ })
  t.throws(() => parseConfig(environment({ GIT_PROVIDER_API_URL: 'ftp://x' }), '/'), {
    message: /GIT_PROVIDER_API_URL/,
  })
})

test('the key is PEM of either kind, with \\n for line ends, or a file; anything else is refused, and never printed', async t => {
  const folder = ownFolder(t)
  writeFileSync(join(folder, 'app.pem'), provider.pem)
  const covers = async (key: string) =>
    (await open({ GIT_PROVIDER_PRIVATE_KEY: key }))!.installationOf('ana/none', AbortSignal.timeout(5000))
  for (const key of [provider.pem, provider.pem.replaceAll('\n', '\\n'), join(folder, 'app.pem')])
    t.is(await covers(key), null)
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const other = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  await t.throwsAsync(covers(other), { message: /401/ }, 'the provider checks the signature')

  const curve = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const broken = provider.pem.slice(0, 200)
  for (const key of [
    curve.export({ type: 'pkcs8', format: 'pem' }) as string,
    broken,
    join(folder, 'missing'.repeat(20)),
  ]) {
    const { message } = await t.throwsAsync(open({ GIT_PROVIDER_PRIVATE_KEY: key }))
    t.regex(message, /GIT_PROVIDER_PRIVATE_KEY/)
    t.false(message.includes(key.slice(-60, -30)) || message.includes(folder))
  }
})

test('pages of the provider carry state and no secrets', async t => {
  const opened = (await open())!
  t.is(opened.installPage('a.b&c'), `${provider.url}/apps/berth%20test%2Fx/installations/new?state=a.b%26c`)
  const page = new URL(opened.signInPage('s', 'http://here/back'))
  t.deepEqual(Object.fromEntries(page.searchParams), {
    client_id: 'Iv1.x',
    redirect_uri: 'http://here/back',
    state: 's',
  })
})

test('all installations of a person are found, also those beyond one page', async t => {
  const person = provider.person()
  for (let n = 0; n < 130; n++) provider.install(`organization-${n}`, [], person)
  const visitor = await (await open({ GIT_PROVIDER_CLIENT_ID: provider.settings.clientId }))!.visitor(
    provider.code(person),
    'http://here/back',
    AbortSignal.timeout(5000),
  )
  t.is(visitor?.installations.length, 130)
})
