// SPDX-License-Identifier: MIT
// A page of two parts, which are two writes. Usage: HttpPage.exe PORT
using System.Net;
using System.Text;

static class HttpPage
{
    static void Main(string[] arguments)
    {
        var listener = new HttpListener();
        listener.Prefixes.Add("http://127.0.0.1:" + arguments[0] + "/");
        for (listener.Start();;)
        {
            var answer = listener.GetContext().Response;
            answer.ContentLength64 = 400;
            answer.OutputStream.Write(Encoding.ASCII.GetBytes(new string('x', 200)), 0, 200);
            answer.OutputStream.Write(Encoding.ASCII.GetBytes(new string('x', 200)), 0, 200);
            answer.Close();
        }
    }
}
