import type { Logger } from 'pino'
import { type ContainerHost, HostUnreachable } from '../../../activities/containers/port.ts'
import type { DatabaseTemplates } from '../../../activities/databases/templates/templates.ts'
import type { Db } from '../../../db/database.ts'
import { readDatabaseImages, recordDatabaseImages } from '../../../db/hosts/database-images.ts'
import { loop } from '../../../lib/async/loop.ts'
import { unlessAborted } from '../../../lib/async/timeout.ts'
import { type DatabaseSettings, imagesOnOffer } from '../../../policy/databases/database-settings.ts'
import { engineNames } from '../../../policy/databases/engine.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { mongoStandIn } from '../../../policy/databases/mongo.ts'
import { roundSeconds } from '../../../policy/rounds.ts'

export interface DatabaseImagesOptions {
  db: Db
  engine: Pick<ContainerHost, 'ensureImage'>
  hostId: string
  databases: DatabaseSettings
  log: Logger
  /** Prepared data folders, which are made right after their image is ready; omitted = none. */
  templates?: Pick<DatabaseTemplates, 'prepare' | 'sweep'> | undefined
  everySeconds?: number
}

const ready = 'ready'
const maxReason = 600
/** Pause after a round in which the container engine or the database did not answer. */
const afterFailureSeconds = 10
/** First pause; doubled each time. The start of an installation installs what makes images while its host runs. */
const firstPauseSeconds = 5

/**
 * Prepares the images of all databases on offer, one at a time, and records each as it becomes ready or turns out to be unavailable;
 * those are tried again in every round, until the signal aborts. Never waits for anyone but the container engine, so that neither the start of
 * the host nor a request depends on it.
 */
export async function watchDatabaseImages(options: DatabaseImagesOptions, signal: AbortSignal): Promise<void> {
  const { log, databases, everySeconds = roundSeconds.databaseImages } = options
  const offer = imagesOnOffer(databases)
  const states = new Map(notOffered(offer, databases))
  let rounds = 0
  const round = async () => {
    if (rounds === 0) await forget(options, offer, states)
    rounds++
    for (const image of offer) {
      if (signal.aborted) return
      if (states.get(image) !== ready) await prepare(options, image, states, signal)
    }
    await options.templates?.sweep()
  }
  await loop(round, {
    signal,
    everyMs: ({ failed }) =>
      Math.min(failed ? afterFailureSeconds : firstPauseSeconds * 2 ** rounds, everySeconds) * 1000,
    onError: error => {
      if (!signal.aborted) log.warn({ err: error }, 'images of databases: will try again')
    },
  })
}

/** Someone may have removed images since the last start, so nothing counts until it was seen. What was ready then is looked at first. */
async function forget(
  { db, hostId }: DatabaseImagesOptions,
  offer: string[],
  states: ReadonlyMap<string, string>,
): Promise<void> {
  const before = await readDatabaseImages(db, hostId)
  offer.sort((a, b) => Number(before[b] === ready) - Number(before[a] === ready))
  await recordDatabaseImages(db, hostId, Object.fromEntries(states))
}

async function prepare(
  options: DatabaseImagesOptions,
  image: string,
  states: Map<string, string>,
  signal: AbortSignal,
): Promise<void> {
  const { db, engine, hostId, databases, log } = options
  const state = await unlessAborted(engine.ensureImage(image), signal).then(
    () => ready,
    error => {
      if (signal.aborted || error instanceof HostUnreachable) throw error
      log.warn({ err: error, image }, 'images of databases: not available')
      return `${oneLine(error.message)}\n${whatToDo(image, databases)}`
    },
  )
  if (states.get(image) === state) return
  if (state === ready) log.info({ image }, 'images of databases: ready')
  await recordDatabaseImages(db, hostId, { ...Object.fromEntries(states), [image]: state })
  states.set(image, state)
  if (state === ready) await prepareTemplate(options, image, signal)
}

/** A failure costs the first database some seconds, and nothing else. */
async function prepareTemplate(
  { templates, log }: DatabaseImagesOptions,
  image: string,
  signal: AbortSignal,
): Promise<void> {
  for (const engine of engineNames)
    for (const version of engines[engine].versions)
      if (engines[engine].image(version) === image)
        await templates?.prepare({ engine, version, image }, signal).catch(error => {
          if (signal.aborted || error instanceof HostUnreachable) throw error
          log.warn({ err: error, image }, 'templates of databases: will be made with the first database')
        })
}

/** The log has all of it. */
function oneLine(message: string): string {
  const line = message.replace(/\s+/g, ' ').trim()
  return line.length > maxReason ? `${line.slice(0, maxReason)} …` : line
}

/** Images of engines that this host does not offer, with the reason. */
function notOffered(offer: readonly string[], databases: DatabaseSettings): [image: string, reason: string][] {
  const all = Object.values(engines).flatMap(({ versions, image }) => versions.map(image))
  const reason = `This host offers ${databases.engines.join(', ') || 'no databases'} (setting DATABASE_ENGINES).`
  const standIns = engines.mongo.versions.map(mongoStandIn.image)
  const missing = (images: string[], why: string) =>
    images.filter(image => !offer.includes(image)).map((image): [string, string] => [image, why])
  return [...missing(all, reason), ...missing(standIns, databases.engines.includes('mongo') ? withoutStandIn : reason)]
}

const withoutStandIn = 'This host does not offer the stand-in for MongoDB (setting MONGO_STAND_IN).'

function whatToDo(image: string, { mongoStandIn: withStandIn }: DatabaseSettings): string {
  const official = Object.values(engines).flatMap(engine =>
    engine.versions.filter(version => engine.image(version) === image).map(engine.official),
  )[0]
  const pull = official && `Give the host a registry that has ${official}, or load that image and tag it as ${image}.`
  const isMongo = engines.mongo.versions.some(version => engines.mongo.image(version) === image)
  if (!isMongo)
    return [pull, `The host tries again every ${roundSeconds.databaseImages / 60} minutes.`].filter(Boolean).join(' ')
  const standIn = engines.mongo.versions.map(mongoStandIn.image).join(', ')
  return withStandIn ? `${pull} Until then ${standIn} takes its place.` : `${pull} To try Berth, set MONGO_STAND_IN=on.`
}
