const loopbackHosts = ['127.0.0.1', '[::1]', 'localhost']
const maxLength = 512

/** The address of a program on the person's own machine (http on loopback, RFC 8252); null for all others. */
export function loopbackRedirect(text: string): URL | null {
  if (text.length > maxLength || !URL.canParse(text)) return null
  const url = new URL(text)
  const isPlain = url.username === '' && url.password === '' && url.hash === ''
  return url.protocol === 'http:' && loopbackHosts.includes(url.hostname) && isPlain ? url : null
}
