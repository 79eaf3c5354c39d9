import { join } from 'node:path'
import { endRecorded, readRecord } from '../../workers/supervisor/process-record.ts'
import { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { unusedPort } from '../installation/ports.ts'
import { ensureDocker, keepDocker } from '../services/engine/docker.ts'
import { defaultDockerHost } from '../services/engine/own-engine.ts'
import { ensureGit } from '../services/git.ts'
import { ensureImages, firstImages } from '../services/images.ts'
import { nginxBinary } from '../services/proxy.ts'
import { temporalProcess } from '../services/temporal.ts'
import { cacheFolder } from '../services/temporal-binary.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { browserBinary } from './browser.ts'
import { ensureDatabaseDrivers } from './clients/database-drivers.ts'
import { ensureOpenAiClient } from './clients/openai.ts'
import { ensureS3Programs } from './clients/s3-programs.ts'
import { compiledProduct } from './compiled-product.ts'
import { databaseTestImages } from './database-images.ts'
import { pebbleBinary } from './pebble.ts'
import { memoryFolder, removeThrowAway, startTestPostgres, throwAwayFolder } from './test-postgres.ts'
import { transpiledSources } from './transpiled-sources.ts'

export interface TestServices {
  /** What the run and its tests read from their environment: addresses, places of files. */
  env: Record<string, string>
  /** The file in which test files record their times (fileTimes). */
  durations: string
  /** Ends what was started here and removes its folder. */
  stop(): Promise<void>
}

/**
 * Finds, installs or starts everything the tests need: one Postgres, one Temporal, an engine with its images, nginx, a browser, and the
 * clients of S3 if `s3Programs` is set, the database drivers of Python if `databaseDrivers` is, OpenAI's client for Python if `openAiClient`
 * is, and Pebble if `pebble` is. Images of databases are prepared while tests run, if `databaseImages` is set: those that need one wait for it.
 */
export async function startTestServices(
  say: Say,
  wanted: Record<'s3Programs' | 'databaseImages' | 'databaseDrivers' | 'openAiClient' | 'pebble', boolean>,
): Promise<TestServices> {
  const folder = throwAwayFolder()
  const clusterFolder = memoryFolder()
  const place = { runFolder: join(folder, 'run'), logFolder: join(folder, 'logs') }
  const supervisor = new Supervisor({ ...place, say })
  const over = new AbortController()
  const stop = async () => {
    over.abort()
    await supervisor.stop()
    const engine = readRecord(place.runFolder, 'dockerd')
    if (engine) await endRecorded(engine)
    removeThrowAway(folder)
    removeThrowAway(clusterFolder)
  }
  const engine = async () => {
    const dockerHost = process.env.DOCKER_HOST
    await ensureDocker({ dockerHost, ...place }, say)
    void keepDocker({ dockerHost, ...place }, say, { over: over.signal })
    const address = dockerHost ?? defaultDockerHost
    await ensureImages(firstImages(), address, say)
    if (wanted.databaseImages)
      void ensureImages(databaseTestImages(), address, say).catch(error =>
        say(`Images of databases are missing: ${error.message}`),
      )
  }
  const temporal = async () => {
    const port = await unusedPort()
    await supervisor.start(await temporalProcess({ folder: null, port, uiPort: null }, say))
    return `127.0.0.1:${port}`
  }
  try {
    const [postgres, address] = await step(say, 'starting the services of the tests', () =>
      Promise.all([
        startTestPostgres(supervisor, clusterFolder, say),
        temporal(),
        engine(),
        nginxBinary(say, process.env.NGINX || null),
        ensureGit(say),
        browserBinary(say),
        wanted.s3Programs && ensureS3Programs(say),
        wanted.databaseDrivers && ensureDatabaseDrivers(say),
        wanted.openAiClient && ensureOpenAiClient(say),
        wanted.pebble && pebbleBinary(say),
      ]),
    )
    const durations = join(folder, 'durations')
    const { TEST_COMPILED: product } = await compiledProduct()
    const env = {
      TEST_DATABASE_URL: postgres.adminUrl,
      TEST_TEMPORAL_ADDRESS: address,
      TEST_DURATIONS: durations,
      TEST_EARLIER_TIMES: join(cacheFolder(), 'test-times'),
      ...(product ? await transpiledSources(join(folder, 'transpiled'), product) : {}),
    }
    return { env, durations, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
