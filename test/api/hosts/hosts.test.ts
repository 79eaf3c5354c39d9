import { randomBytes } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import test from 'ava'
import { labels } from '../../../activities/containers/port.ts'
import type { shownState } from '../../../activities/live/live-feed.ts'
import { hostCall } from '../../../api/hosts/host-call.ts'
import { httpHostReader } from '../../../api/hosts/host-reader.ts'
import { hostLive } from '../../../api/hosts/live-events.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import { hostsContract, type ScriptedHost } from '../../contracts/hosts.ts'
import { masterKey, testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ScriptedHosts } from '../../kit/fakes/scripted-hosts.ts'
import { ScriptedLive } from '../../kit/fakes/scripted-live.ts'
import { fileHost } from '../../kit/hosts/file-host.ts'

const api = testApi()
const undo: (() => Promise<unknown> | unknown)[] = []
test.after.always('stop the hosts', async () => {
  for (const step of undo) await step()
})

/** The application's own host: its server and its database are real, its engine is the one of `test/contracts/containers/container-host.ts`. */
async function realHost(): Promise<ScriptedHost> {
  const { db, makeUser, makeApp } = api()
  const made = await makeApp(await makeUser())
  const hostId = `h-${randomBytes(4).toString('hex')}`
  const host = await fileHost(hostId, db)
  undo.push(() => host.stop())
  const { engine, server } = host
  await db('apps').where({ id: made.id }).update({ host_id: hostId })
  const app = (await loadApp(db, made.id))!
  const name = `berth-${app.id}-1`
  const own = {
    ...{ [labels.host]: hostId, [labels.app]: app.id, [labels.owner]: app.owner_id },
    ...{ [labels.release]: '1', [labels.role]: 'app' },
  }
  return {
    app,
    async start(printed = '') {
      engine.networks.add('net')
      await engine.create({ name, labels: own, command: ['-'], network: 'net', memoryMb: 256, publish: null } as never)
      await engine.start(name)
      engine.print(name, printed)
    },
    async print(line, stream) {
      await comesTrue(() => engine.follows.open > 0)
      engine.print(name, `${line}\n`, stream)
    },
    end: async exitCode => engine.containers.get(name)!.end(exitCode),
    remove: () => engine.remove(name),
    hangUp: async () => server.closeAllConnections(),
    async fall(silent) {
      if (silent === 'away')
        return void (await db('hosts')
          .where({ id: hostId })
          .update({ last_seen_at: new Date(0) }))
      const sockets: Socket[] = []
      const mute = createServer(socket => sockets.push(socket))
      await new Promise<void>(done => mute.listen(0, '127.0.0.1', done))
      undo.push(() => {
        mute.close()
        for (const socket of sockets) socket.destroy()
      })
      const { port } = mute.address() as { port: number }
      await db('hosts')
        .where({ id: hostId })
        .update({ read_url: `http://127.0.0.1:${port}` })
    },
    readers: () => engine.follows.open,
  }
}

hostsContract(test, 'hosts', () => {
  const ask = hostCall(api().db, masterKey)
  return { hosts: httpHostReader(api().db, ask), live: hostLive(ask), host: realHost }
})

const scripted = new ScriptedHosts()

async function scriptedHost(): Promise<ScriptedHost> {
  const app = await api().makeApp(await api().makeUser())
  const live = new ScriptedLive()
  const stand = (state: ReturnType<typeof shownState> | null) => {
    const stats = state?.running ? new ScriptedLive().reading.stats : null
    scripted.readings.set(app.id, { state, stats, storageBytes: 0 })
    if (state) live.become({ state, stats })
  }
  stand(null)
  scripted.printed.set(app.id, null)
  const removed = new ScriptedLive()
  removed.remove()
  scripted.streams.set(app.id, removed)
  return {
    app,
    async start(printed = '') {
      scripted.streams.set(app.id, live)
      scripted.printed.set(app.id, (scripted.printed.get(app.id) ?? '') + printed)
      stand({
        ...live.reading.state,
        status: 'running',
        running: true,
        startedAt: new Date().toISOString(),
        exitCode: null,
      })
    },
    print: async (line, stream) => live.print(line, stream),
    end: async exitCode => stand({ ...live.reading.state, status: 'exited', running: false, exitCode }),
    async remove() {
      live.remove()
      scripted.printed.set(app.id, null)
      stand(null)
    },
    hangUp: async () => live.hangUp(),
    fall: async silent =>
      void scripted.silent.set(app.id, silent === 'away' ? 'CLUSTER_UNAVAILABLE' : 'CLUSTER_TIMEOUT'),
    readers: () => live.readers + removed.readers,
  }
}

hostsContract(test, 'scripted', () => ({
  hosts: scripted,
  live: (app, signal) => scripted.live(app, signal),
  host: scriptedHost,
}))
