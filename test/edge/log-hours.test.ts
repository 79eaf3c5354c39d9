import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { control } from '../../activities/edge/control-socket.ts'
import { logName } from '../../edge/log-format.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

test('each line is in the file of its hour: none is lost when the hour turns', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  await getClock(proxy)
  const many = (name: string) =>
    Promise.all(Array.from({ length: 60 }, (_, n) => ask(proxy.port, 'nobody.localhost', { path: `/${name}/${n}` })))
  await many('before')
  const meanwhile = many('meanwhile')
  await setHours(proxy, 1)
  await meanwhile
  await many('after')
  await comesTrue(async () => (await proxy.accessLog(180)).length === 180)
  const [now, next] = [await pathsIn(hourFile(proxy, 0)), await pathsIn(hourFile(proxy, 1))]
  t.is(new Set([...now, ...next]).size, 180)
  const of = (name: string) => [now, next].map(paths => paths.filter(path => path.startsWith(`/${name}/`)).length)
  t.deepEqual(
    [of('before'), of('after')],
    [
      [60, 0],
      [0, 60],
    ],
  )
})

test('after the log was opened again, or its file removed, lines are in the file of the hour within seconds', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  const [file, own] = [hourFile(proxy, 0), join(proxy.config.dataDir, 'proxy', logName)]
  let batch = 0
  const send = async () => {
    batch++
    for (let n = 0; n < 10; n++) await ask(proxy.port, 'nobody.localhost', { path: `/${batch}/${n}` })
  }
  const arrive = async () => {
    await send()
    return (await pathsIn(file)).filter(path => path.startsWith(`/${batch}/`)).length === 10
  }
  await comesTrue(arrive)
  const master = Number(await readFile(join(proxy.config.dataDir, 'proxy/nginx.pid'), 'utf8'))
  await comesTrue(async () => {
    process.kill(master, 'SIGUSR1')
    await send()
    return (await stat(own)).size > 0
  })
  await comesTrue(arrive)
  await rm(file)
  await comesTrue(arrive)
  t.pass()
})

const hourFile = ({ config }: TestProxy, ahead: number): string => {
  const at = new Date(Date.now() + ahead * 3_600_000)
  return join(config.dataDir, `proxy/access/access-${at.toISOString().slice(0, 13)}.log`)
}

const pathsIn = async (file: string): Promise<string[]> => {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line).path)
}

/** Whole hours by which the proxy's clock is ahead; rejects while it has no such clock. */
const setHours = ({ config }: TestProxy, hours: number) =>
  control(config.edge.controlSocket, { method: 'GET', path: `/hours?ahead=${hours}`, Refused: Error })

/** Gives the Lua of a proxy a clock that `setHours` sets, and waits until no worker is left without. */
async function getClock(proxy: TestProxy): Promise<void> {
  const path = join(proxy.config.dataDir, 'proxy/nginx.conf')
  const clock = `local now, notes = ngx.time, ngx.shared.journals
    ngx.time = function() return now() + 3600 * (notes:get('ahead') or 0) end`
  const set = "ngx.shared.journals:set('ahead', tonumber(ngx.var.arg_ahead))"
  const text = (await readFile(path, 'utf8'))
    .replace('init_worker_by_lua_block {', `init_worker_by_lua_block { ${clock}`)
    .replace('location = /health', `location = /hours { content_by_lua_block { ${set} } }\n location = /health`)
  await writeFile(path, text)
  const master = (await readFile(join(proxy.config.dataDir, 'proxy/nginx.pid'), 'utf8')).trim()
  const workers = async () => {
    const pids = (await readFile(`/proc/${master}/task/${master}/children`, 'utf8')).trim().split(' ')
    const names = pids.map(async pid => [pid, await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')] as const)
    return (await Promise.all(names)).filter(([, name]) => name.includes('worker')).map(([pid]) => pid)
  }
  const before = await workers()
  proxy.reload()
  await comesTrue(async () => {
    const now = await workers()
    return now.length === before.length && !now.some(pid => before.includes(pid))
  })
  await comesTrue(() =>
    setHours(proxy, 0).then(
      () => true,
      () => false,
    ),
  )
}
