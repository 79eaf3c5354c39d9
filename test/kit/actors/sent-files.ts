import type { Answer, TestApi } from './api.ts'

export interface SentFile {
  bytes?: Buffer | string
  fileName?: string
  type?: string
  /** Name of the part. */
  field?: string
  headers?: Record<string, string>
}

export function formOf({ bytes = 'hello', fileName = 'file.txt', type, field = 'file' }: SentFile): FormData {
  const form = new FormData()
  form.append(field, new Blob([bytes], type === undefined ? {} : { type }), fileName)
  return form
}

/** Uploads a file through the blob API, as the holder of the credential. */
export function sendFile(
  api: TestApi,
  who: Parameters<TestApi['blobAs']>[0],
  query: Record<string, string> = {},
  file: SentFile = {},
): Promise<Answer> {
  return api.blobAs(who).post(`/v1/objects?${new URLSearchParams(query)}`, formOf(file), file.headers)
}

/** Uploads a file that must be accepted, and gives the answer's value. */
export async function sent(...args: Parameters<typeof sendFile>): Promise<{ id: string } & Record<string, unknown>> {
  const answer = await sendFile(...args)
  if (answer.status !== 200) throw new Error(`An upload was answered ${answer.status}: ${answer.text}`)
  return answer.body.response
}
