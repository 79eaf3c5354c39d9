import { parseArgs } from 'node:util'
import { type EngineName, engineNames } from '../policy/databases/engine.ts'
import { openBerth } from './databases/berth.ts'
import { lineOf, type Measured } from './databases/figures.ts'
import { openFloor } from './databases/floor.ts'
import { type MeasureName, measureNames, measures } from './databases/measures.ts'
import { startPlatform } from './kit/platform.ts'

/**
 * Databases compared with raw calls to the engines, with the same images, limits, settings and durability, in alternating order in one run.
 * The floor of a creation unpacks a data folder that was prepared, syncs it, starts the engine with certificates that exist, sets the
 * password and logs in once: no request, no rows, no lane, no certificate, no volume and no network are in it. MongoDB is its stand-in.
 */
const usage = `npx tsx bench/databases.ts [options]
  --engines postgres,mysql   default: ${engineNames.join(',')}
  --only creation,rotation   default: ${measureNames.join(',')}
  --rounds 15                measurements of each side; one more warms up
  --megabytes 64             contents of a database for snapshots and restores
  --bind 172.17.0.1          address of the machine that ports are published on; default: 127.0.0.1, which a process of the engine may serve. To
                             others the kernel forwards, as it does for clients from elsewhere
  --json                     figures for programs, and nothing else`

const { values } = parseArgs({
  options: {
    engines: { type: 'string', default: engineNames.join(',') },
    only: { type: 'string', default: measureNames.join(',') },
    rounds: { type: 'string', default: '15' },
    megabytes: { type: 'string', default: '64' },
    bind: { type: 'string', default: '127.0.0.1' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

async function bench(): Promise<void> {
  const [rounds, megabytes] = [Number(values.rounds), Number(values.megabytes)]
  const say = (line: string) => values.json || console.log(line)
  const platform = await startPlatform({
    DATABASE_ENGINES: engineNames.join(','),
    MONGO_STAND_IN: 'on',
    HOST_FIREWALL: 'auto',
    DATABASE_BIND: values.bind,
  })
  const all: Measured[] = []
  const folders: Record<string, number> = {}
  try {
    const berth = await openBerth(platform, values.bind)
    try {
      // Its owner has a database already, and with it the network.
      await berth.firstOf('redis')
      for (const name of values.engines.split(',') as EngineName[]) {
        const first = await berth.firstOf(name)
        await berth.remove(first)
        const floor = await openFloor(name)
        try {
          folders[name] = await floor.prepare()
          say(
            `${name.padEnd(8)} an empty data folder takes ${folders[name].toFixed(0)} ms, which no figure below contains`,
          )
          for (const measure of values.only.split(',') as MeasureName[])
            for (const figures of await measures[measure]({ name, rounds, megabytes, berth, floor })) {
              all.push(figures)
              say(lineOf(figures))
            }
        } finally {
          floor.close()
        }
      }
    } finally {
      await berth.close()
    }
  } finally {
    await platform.stop()
  }
  if (values.json)
    console.log(JSON.stringify({ rounds, megabytes, bind: values.bind, emptyFolderMs: folders, figures: all }, null, 2))
}

if (values.help) console.log(usage)
else await bench()
