import { createHash } from 'node:crypto'
import test from 'ava'
import { testApi } from '../../kit/api.ts'
import { sendFile } from '../../kit/sent-files.ts'

const api = testApi()
const sha256 = (bytes: string) => createHash('sha256').update(bytes).digest('hex')

test('an upload is a row, a manifest and a stored body, and answered with what it became', async t => {
  const ana = await api().makeUser()
  const { status, body } = await sendFile(api(), ana, { name: 'photo', prefix: 'a/b' }, { fileName: 'x.PNG' })
  t.is(status, 200, JSON.stringify(body))
  const id = `pub/${ana.id}/a/b/photo.png`
  t.deepEqual(body.response, {
    id,
    name: 'photo',
    prefix: 'a/b',
    size: 5,
    private: false,
    url: `${api().parts.config.urls.public}/${id}`,
    sha256: sha256('hello'),
    replaced: false,
  })
})
