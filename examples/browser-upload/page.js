import { upload } from './upload.js'

const element = id => document.getElementById(id)
let cancel

element('file').addEventListener('change', async () => {
  const [file] = element('file').files
  if (!file) return
  cancel = new AbortController()
  show(`Uploading ${file.name}`, 0)
  element('cancel').hidden = false
  try {
    const minted = await fetch('/token', { method: 'POST' })
    const token = await minted.json()
    if (!minted.ok) throw new Error(token.message)
    const { url, id } = await upload(file, {
      ...token,
      signal: cancel.signal,
      onProgress: share => show(undefined, share),
    })
    show('Done: ', 1)
    const link = Object.assign(document.createElement('a'), { href: url ?? '#', textContent: id })
    element('said').append(link)
  } catch (error) {
    show(error.message)
  }
  element('cancel').hidden = true
  element('file').value = ''
})

element('cancel').addEventListener('click', () => cancel?.abort())

function show(text, share) {
  if (text !== undefined) element('said').textContent = text
  if (share === undefined) return
  element('bar').value = share
  element('share').textContent = `${Math.floor(share * 100)} %`
}
