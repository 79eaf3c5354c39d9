import type { Client, Connection } from 'pg'
import { pointInTimeRules, walNumberAt } from '../../../../../policy/databases/point-in-time.ts'
import type { BackupStart } from '../../../point-in-time/port.ts'

/** Kinds of messages in the stream of a base backup (protocol of Postgres 15 and later). */
const archiveBegins = 'n'.charCodeAt(0)
const archiveData = 'd'.charCodeAt(0)

/** Unlike SQL, commands of replication are in upper case. */
const statement = `BASE_BACKUP (LABEL 'berth', CHECKPOINT 'fast', WAL false, MANIFEST 'no', MAX_RATE ${pointInTimeRules.backupMbps * 1024})`

interface Fields {
  fields: unknown[]
}

/** A query of the driver whose answer is copied out. The driver has none, so this is what it calls. */
class BaseBackup {
  readonly done: Promise<BackupStart>
  /** The driver sets and calls it when the connection ends. */
  callback: (error?: Error | null) => void = () => {}
  readonly #take: (piece: Buffer) => Promise<void> | undefined
  #archives = 0
  #start: BackupStart | null = null
  #failure: Error | null = null
  #waiting: Promise<void> = Promise.resolve()
  #taken: Promise<void> | null = null
  #resolve: (start: BackupStart) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor(take: (piece: Buffer) => Promise<void> | undefined) {
    this.#take = take
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.callback = error => {
      if (error) this.handleError(error)
    }
  }

  submit(connection: Connection): void {
    ;(connection as unknown as { query(text: string): void }).query(statement)
  }

  handleRowDescription(): void {}

  /** The first row is where it starts; the rows after it are the list of archives and where it ends. */
  handleDataRow({ fields }: Fields): void {
    if (this.#start) return
    const [position, timeline] = fields.map(String)
    this.#start = { timeline: Number(timeline), firstFile: walNumberAt(position ?? '') }
  }

  handleCopyData({ chunk }: { chunk: Buffer }, connection: Connection): void {
    const kind = chunk[0]
    if (kind === archiveBegins) this.#archives++
    if (kind !== archiveData || this.#failure) return
    // The driver uses the bytes again.
    const taken = this.#take(Buffer.from(chunk.subarray(1)))
    if (!taken || taken === this.#taken) return
    this.#taken = taken
    const { stream } = connection as unknown as { stream: { pause(): void; resume(): void; destroy(): void } }
    stream.pause()
    this.#waiting = Promise.all([this.#waiting, taken]).then(
      () => stream.resume(),
      (error: Error) => {
        this.#failure = error
        this.#reject(error)
        stream.destroy()
      },
    )
  }

  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}

  handleReadyForQuery(): void {
    const start = this.#start
    if (start && this.#archives === 1) this.#waiting.then(() => this.#resolve(start), this.#reject)
    else this.#reject(new Error(`The base backup has ${this.#archives} archives instead of one.`))
  }

  handleError(error: Error): void {
    this.#failure = error
    this.#reject(error)
  }
}

/** Makes a base backup on a replication connection. Customers cannot have tablespaces, so it is one archive. */
export function readBaseBackup(
  client: Client,
  take: (piece: Buffer) => Promise<void> | undefined,
): Promise<BackupStart> {
  const backup = new BaseBackup(take)
  client.query(backup as never)
  return backup.done
}
