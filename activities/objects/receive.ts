import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { BodyMeter } from './meter.ts'
import { BodyMismatch, type PutOptions, type StoredBody } from './port.ts'

/**
 * Opens a file and writes a body to it, with one piece in memory. Rejects as `ObjectStore.put` does, with the file closed
 * and the body destroyed; otherwise the caller closes it.
 */
export async function receive(
  opening: Promise<FileHandle>,
  body: Readable,
  options: PutOptions,
  /** Called with the number of bytes before each piece is written; a rejection ends the body. */
  beforePiece?: (file: FileHandle, bytes: number) => Promise<void>,
): Promise<StoredBody & { file: FileHandle }> {
  // Until the pipeline listens, a client that disconnects must not crash this process.
  body.on('error', () => {})
  let file: FileHandle | undefined
  let diskError: unknown
  try {
    file = await opening
    const sink = file
    const meter = new BodyMeter(options)
    const failed = (error: unknown) => {
      // The pipeline reports a failure of its last function as a mere abort.
      diskError = error
      throw error
    }
    const write = async (pieces: AsyncIterable<Buffer>) => {
      for await (const piece of pieces) {
        await beforePiece?.(sink, piece.length).catch(failed)
        await writeWhole(sink, piece).catch(failed)
      }
    }
    await pipeline(body, meter, write, { signal: options.signal })
    return { ...meter.result(), file }
  } catch (error) {
    body.destroy()
    await file?.close()
    const torn = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
    if (diskError) throw diskError
    throw torn ? new BodyMismatch('The body was cut off.', { cause: error }) : error
  }
}

async function writeWhole(file: FileHandle, piece: Buffer): Promise<void> {
  for (let written = 0; written < piece.length; ) written += (await file.write(piece, written)).bytesWritten
}
