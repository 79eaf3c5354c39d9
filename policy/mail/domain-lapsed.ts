import type { MailTemplate } from './template.ts'

/** A custom domain that was not proved in time. */
export type DomainLapsed = { hostname: string; hours: number }

export const domainLapsed: MailTemplate<DomainLapsed> = {
  'pt-BR': ({ hostname, hours }) => ({
    subject: `O domínio ${hostname} foi removido`,
    text: `Durante ${hours} horas, nenhum registro de DNS comprovou que o domínio ${hostname} é seu. Por isso ele foi removido da sua aplicação, que continua acessível no próprio subdomínio.

Para usar o domínio, defina-o novamente na aplicação e crie um dos registros de DNS mostrados.`,
  }),
  'en-US': ({ hostname, hours }) => ({
    subject: `The domain ${hostname} was removed`,
    text: `For ${hours} hours, no DNS record has proved that the domain ${hostname} is yours. It was therefore removed from your application, which is still available at its subdomain.

To use the domain, set it on the application again, and create one of the DNS records that are shown.`,
  }),
  'es-ES': ({ hostname, hours }) => ({
    subject: `El dominio ${hostname} se ha eliminado`,
    text: `Durante ${hours} horas, ningún registro DNS ha demostrado que el dominio ${hostname} es tuyo. Por eso se ha eliminado de tu aplicación, que sigue disponible en su subdominio.

Para usar el dominio, vuelve a configurarlo en la aplicación y crea uno de los registros DNS que se muestran.`,
  }),
  'zh-CN': ({ hostname, hours }) => ({
    subject: `域名 ${hostname} 已被移除`,
    text: `在 ${hours} 小时内，没有任何 DNS 记录证明域名 ${hostname} 属于您，因此它已从您的应用中移除。应用仍可通过其子域名访问。

如需使用该域名，请在应用中重新设置，并创建所显示的 DNS 记录之一。`,
  }),
  'ja-JP': ({ hostname, hours }) => ({
    subject: `ドメイン ${hostname} は削除されました`,
    text: `${hours} 時間の間、ドメイン ${hostname} の所有を証明する DNS レコードが見つからなかったため、アプリケーションから削除されました。アプリケーションには引き続きサブドメインでアクセスできます。

このドメインを使用するには、アプリケーションに再度設定し、表示される DNS レコードのいずれかを作成してください。`,
  }),
  'fr-FR': ({ hostname, hours }) => ({
    subject: `Le domaine ${hostname} a été retiré`,
    text: `Pendant ${hours} heures, aucun enregistrement DNS n'a prouvé que le domaine ${hostname} est le vôtre. Il a donc été retiré de votre application, qui reste accessible à son sous-domaine.

Pour utiliser ce domaine, définissez-le de nouveau sur l'application et créez l'un des enregistrements DNS affichés.`,
  }),
  'de-DE': ({ hostname, hours }) => ({
    subject: `Die Domain ${hostname} wurde entfernt`,
    text: `${hours} Stunden lang hat kein DNS-Eintrag belegt, dass die Domain ${hostname} Ihnen gehört. Sie wurde deshalb von Ihrer Anwendung entfernt, die unter ihrer Subdomain erreichbar bleibt.

Um die Domain zu verwenden, setzen Sie sie erneut auf die Anwendung, und legen Sie einen der angezeigten DNS-Einträge an.`,
  }),
  'it-IT': ({ hostname, hours }) => ({
    subject: `Il dominio ${hostname} è stato rimosso`,
    text: `Per ${hours} ore nessun record DNS ha dimostrato che il dominio ${hostname} è tuo. Per questo è stato rimosso dalla tua applicazione, che resta raggiungibile al suo sottodominio.

Per usare il dominio, impostalo di nuovo nell'applicazione e crea uno dei record DNS indicati.`,
  }),
}
