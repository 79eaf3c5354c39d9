import { readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type { AppRow } from '../../db/apps.ts'
import { largestFileBytes } from '../../policy/file-content.ts'
import { newAppId } from '../../policy/ids.ts'
import { hostReadKey } from '../../policy/keys.ts'
import { masterKey } from '../kit/api.ts'
import { fileHost } from '../kit/file-host.ts'
import type { Contents } from '../kit/folders.ts'

const started = fileHost('h1')
test.after.always('stop the host', async () => (await started).stop())

async function hosted(contents: Contents) {
  const host = await started
  const app = { id: newAppId(), uid: 10_778 } as AppRow
  const files = await host.bring(app, contents)
  const ask = (method: string, path: string, init: RequestInit = {}) =>
    fetch(`${host.url}/apps/${app.id}/${path}`, {
      method,
      headers: { authorization: `Bearer ${hostReadKey(masterKey, 'h1')}` },
      ...init,
    })
  return { host, app, files, ask }
}

const refusal = async (answer: Promise<Response>) => {
  const told = await answer
  const { code } = (await told.json()) as { code: string }
  return [told.status, code]
}

test('only who has the host’s key is told or given anything, and no path leads out', async t => {
  const { ask, files } = await hosted({ file: 'text' })
  for (const [method, path] of [
    ['GET', 'files?path='],
    ['GET', 'files/content?path=file'],
    ['PUT', 'files?path=file'],
    ['DELETE', 'files?path=file'],
  ] as const)
    for (const authorization of ['', 'Bearer x', `Bearer ${hostReadKey(masterKey, 'h2')}`])
      t.is((await ask(method, path, { headers: { authorization } })).status, 401)
  for (const path of ['..', 'a/../../b', '%00', `${'a'.repeat(300)}`]) {
    t.deepEqual(await refusal(ask('GET', `files?path=${path}`)), [400, 'INVALID_PATH'], path)
    t.deepEqual(await refusal(ask('PUT', `files?path=${path}`, { body: 'x' })), [400, 'INVALID_PATH'], path)
  }
  for (const method of ['PUT', 'PATCH', 'DELETE'])
    t.deepEqual(await refusal(ask(method, 'files?path=/')), [400, 'INVALID_PATH'], 'the root itself')
  t.deepEqual(await refusal(ask('PATCH', 'files?path=file&to=../x')), [400, 'INVALID_PATH'])
  t.deepEqual(readdirSync(files), ['file'])
})

test('a change whose caller has left while it waited for its turn is not made', async t => {
  const { host, app, ask, files } = await hosted({ file: 'text' })
  let free = () => {}
  const other = host.turns(app.id, () => new Promise<void>(resolve => (free = resolve)))
  const caller = new AbortController()
  const left = [
    ask('PUT', 'files?path=new', { body: 'x', signal: caller.signal }),
    ask('DELETE', 'files?path=file', { signal: caller.signal }),
  ]
  await sleep(100)
  caller.abort()
  for (const { status } of await Promise.allSettled(left)) t.is(status, 'rejected')
  await sleep(100)
  free()
  await other
  await host.turns(app.id, async () => {})
  t.deepEqual(readdirSync(files), ['file'])
})

test.serial('readers that leave in the middle leave nothing open', async t => {
  const { ask, files } = await hosted({})
  for (let index = 0; index < 5000; index++) writeFileSync(join(files, `a-file-with-a-name-${index}`), '')
  writeFileSync(join(files, 'large'), Buffer.alloc(largestFileBytes))
  const open = () => readdirSync('/proc/self/fd').filter(fd => leadsTo(fd).startsWith(files)).length
  for (let round = 0; round < 10; round++)
    for (const path of ['files?path=', 'files/content?path=large']) {
      const reader = (await ask('GET', path)).body!.getReader()
      await reader.read()
      await reader.cancel()
    }
  for (let waited = 0; open() > 0 && waited < 1500; waited++) await sleep(20)
  t.is(open(), 0)
})

function leadsTo(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return ''
  }
}
