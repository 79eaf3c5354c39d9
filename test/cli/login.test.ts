import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { testApi } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { startBerth } from '../kit/command.ts'

const api = testApi()
const config = mkdtempSync(join(tmpdir(), 'berth-login-'))
test.after.always('remove the folder', () => rmSync(config, { recursive: true, force: true }))

/** The code in the page's address that the command prints. */
async function printedCode(output: () => string): Promise<string> {
  const address = /authorize\?code=([0-9a-f]{64})/
  await comesTrue(() => address.test(output()))
  return address.exec(output())![1]!
}

test.serial('login waits for the decision in the browser and stores the key for this user only', async t => {
  t.timeout(120_000)
  const ana = await api().makeUser()
  const login = startBerth(['login', '--url', api().url], { XDG_CONFIG_HOME: config })
  const code = await printedCode(login.said)
  const body = JSON.stringify({ code, granted: true })
  const { redirect } = (await api().as(ana.session).post('/v2/account/authorize', body)).body.response
  t.is(await (await fetch(redirect)).text(), 'Granted. You can close this page.\n')
  t.is(await login.ended, 0, login.said())
  const file = join(config, 'berth/logins.json')
  t.is(statSync(file).mode & 0o777, 0o600)
  const { apiKey } = JSON.parse(readFileSync(file, 'utf8'))[api().url]
  t.is((await api().as(apiKey).get('/v2/users/me')).body.response.user.id, ana.id)
})

test.serial('a denied login ends with a reason and stores nothing', async t => {
  t.timeout(120_000)
  const ana = await api().makeUser()
  const own = join(config, 'denied')
  const login = startBerth(['login', '--url', api().url], { XDG_CONFIG_HOME: own })
  const code = await printedCode(login.said)
  const body = JSON.stringify({ code, granted: false })
  const { redirect } = (await api().as(ana.session).post('/v2/account/authorize', body)).body.response
  await fetch(redirect)
  t.is(await login.ended, 1)
  t.regex(login.said(), /denied in the browser/)
  t.throws(() => statSync(join(own, 'berth/logins.json')))
})
